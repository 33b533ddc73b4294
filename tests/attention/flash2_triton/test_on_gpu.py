"""flash2_triton compiled, on a GPU: accuracy where the interpreter cannot show it.

The sweep over configurations is marked slow; compiling is most of it, so run it in parallel:
    pytest tests/attention/flash2_triton/test_on_gpu.py -m "slow or not slow" -n 12
"""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

from flash2_problem import GPU

from assay.attention.sequence import flash2_triton
from assay.attention.sequence.flash2_triton import configs
from assay.attention.sequence.flash2_triton.launch import target_of

BITS = {"bfloat16": 16, "float16": 16, "float32": 32}


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [32, 64, 80, 128, 256])
@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("config", flash2_triton.CONFIGS)
def test_every_configuration(config, dtype, head_dim):
    problem = replace(
        GPU, config=config, dtype=dtype, head_dim=head_dim, scale=head_dim**-0.5, queries=193,
        keys=321, heads=4, kv_heads=2,
    )  # fmt: skip
    misfit = configs.BY_NAME[config].misfit(
        bits=BITS[dtype], head_dim=head_dim, target=target_of(torch.device("cuda", 0))
    )
    if misfit:
        with pytest.raises(ValueError, match="does not fit"):
            problem.results()
        return
    for causal in (True, False):
        replace(problem, causal=causal).assert_right()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [(1023, 1023), (113, 1025), (1025, 113), (1, 1), (1, 1023)])
@pytest.mark.parametrize("dtype", BITS)
def test_lengths_of_sequences(dtype, lengths, causal):
    queries, keys = lengths
    replace(GPU, dtype=dtype, queries=queries, keys=keys, causal=causal, batch=2).assert_right()


@pytest.mark.parametrize("head_dim", [16, 24, 40, 96, 128, 192, 256])
@pytest.mark.parametrize("dtype", BITS)
def test_head_dims(dtype, head_dim):
    replace(GPU, dtype=dtype, head_dim=head_dim, scale=head_dim**-0.5).assert_right()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_masks(dtype, causal):
    problem = replace(GPU, dtype=dtype, causal=causal, queries=300, keys=450)
    for window in (1, 70, 1000):
        replace(problem, window=window).assert_right()
    replace(problem, batch=4, lengths=(450, 0, 1, 333)).assert_right()
    replace(problem, batch=4, lengths=(450, 0, 1, 333), window=50).assert_right()
    starts = ((0, 70, 79, 79, 79, 90, 299, 300), (0, 70, 70, 80, 80, 170, 449, 450))
    replace(problem, starts=starts).assert_right()
    replace(problem, starts=starts, window=33).assert_right()


@pytest.mark.parametrize("size", [1e-3, 10.0, 40.0])
@pytest.mark.parametrize("dtype", BITS)
def test_extreme_logits(dtype, size):
    replace(GPU, dtype=dtype, size=size).assert_right()


def offset(tensor: torch.Tensor) -> torch.Tensor:
    """Begins at an address that is not a multiple of 16 bytes."""
    wide = torch.full((tensor.numel() + 1,), float("nan"), dtype=tensor.dtype, device="cuda")
    wide[1:] = tensor.reshape(-1)
    return wide[1:].view(tensor.shape)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    shape = (*tensor.shape[:-1], 2 * tensor.shape[-1])
    wide = torch.full(shape, float("nan"), dtype=tensor.dtype, device="cuda")
    wide[..., ::2] = tensor
    return wide[..., ::2]


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def expanded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:, :, :1].expand(tensor.shape)


@pytest.mark.parametrize("view", [offset, strided, transposed], ids=lambda view: view.__name__)
def test_any_layout(view):
    actual = replace(GPU, view=view, batch=2).assert_right()
    plain = replace(GPU, batch=2).results()
    assert all(torch.equal(actual[name], plain[name]) for name in plain)


def test_expanded_inputs_and_gradients():
    actual = replace(GPU, view=expanded, batch=2).results()
    plain = replace(GPU, view=lambda t: expanded(t).contiguous(), batch=2).results()
    assert all(torch.equal(actual[name], plain[name]) for name in plain)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("causal", [True, False])
def test_many_repeats_are_bit_equal(causal, head_dim):
    """A hazard between asynchronous products and registers shows as a rare wrong bit."""
    problem = replace(
        GPU, batch=2, heads=16, kv_heads=4, queries=1024, keys=1024, head_dim=head_dim,
        causal=causal,
    )  # fmt: skip
    first = problem.results()
    for _ in range(20):
        again = problem.results()
        assert all(torch.equal(again[name], first[name]) for name in first)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_long_sequences_are_as_exact_as_torch(dtype, causal):
    """Against torch's attention in float32, with the error of its half precision as the bound."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    torch.manual_seed(0)
    tensors = [torch.randn(1, 8, 4096, 128, device="cuda", dtype=dtype) for _ in range(4)]
    *inputs, grad = tensors

    def run(call, dtype):
        given = [tensor.to(dtype).requires_grad_() for tensor in inputs]
        out = call(*given)
        return [t.double() for t in (out, *torch.autograd.grad(out, given, grad.to(dtype)))]

    def torch_attention(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=causal)

    with sdpa_kernel(SDPBackend.MATH):
        expected = run(torch_attention, torch.float32)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        theirs = run(torch_attention, dtype)
    ours = run(lambda *x: flash2_triton.attention(*x, causal=causal, scale=128**-0.5), dtype)
    for name, a, b, c in zip(("out", "dq", "dk", "dv"), ours, theirs, expected, strict=True):
        share = ((a - c).abs().max() / (b - c).abs().max()).item()
        assert share <= 2, f"{name}: {share:.2f} times torch's error"
