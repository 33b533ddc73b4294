"""torch's own attention: the backend asked for is the one that runs, or a reason is given."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch.autograd.profiler import profile
from torch.nn.attention import SDPBackend

from assay import host
from assay.attention import contract
from assay.attention.sequence import _sdpa, eager
from assay.attention.sequence._fused_kernels import readable, skip_fully_masked
from assay.attention.sequence.sdpa_flash import key_splits, memory
from assay.devices import Device
from assay.workloads.spec import WorkloadSpec

PINNED = ("sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")
OPERATORS = {
    "sdpa_math": "aten::_scaled_dot_product_attention_math",
    "sdpa_flash": "aten::_scaled_dot_product_flash_attention_for_cpu",
}
CPU = replace(host.inspect(), devices=(Device(kind="cpu", index=0, name="", memory_bytes=1),))
GPU = replace(CPU, devices=(Device(kind="cuda", index=0, name="H200", memory_bytes=1),))


def spec(**given) -> WorkloadSpec:
    usual = {
        "batch": 2, "heads": 4, "kv_heads": 2, "query_length": 33, "key_length": 33,
        "head_dim": 16, "dtype": "float32", "causal": True, "seed": 0,
    }  # fmt: skip
    return WorkloadSpec(**{**usual, **given})


def inputs(queries=33, keys=33, kv_heads=2):
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 4, queries, 16), (2, kv_heads, keys, 16), (2, kv_heads, keys, 16)]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def operators(name, tensors, *, causal) -> set[str]:
    attention = contract.load(name).attention
    with profile() as profiled:
        attention(*tensors, causal=causal, scale=0.25)
    return {event.key for event in profiled.key_averages()}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [(33, 33), (17, 33), (33, 17), (1, 33)])
@pytest.mark.parametrize("name", OPERATORS)
def test_the_pinned_backend_is_the_one_that_runs(name, lengths, causal):
    """Also for strided and expanded inputs, for which torch on its own would change to math."""
    tensors = inputs(*lengths)
    others = set(OPERATORS.values()) - {OPERATORS[name]}
    wide = [torch.stack((t, t), dim=-1).flatten(-2)[..., ::2] for t in tensors]
    equal = [t[:1].expand(2, -1, -1, -1) for t in tensors]
    for given in (tensors, wide, equal):
        ran = operators(name, given, causal=causal)
        assert OPERATORS[name] in ran and not ran & others


@pytest.mark.parametrize("name", ["sdpa", *OPERATORS])
@pytest.mark.parametrize("lengths", [(17, 33), (33, 17), (1, 33), (33, 1)])
def test_the_causal_mask_is_aligned_at_the_bottom_right(name, lengths):
    tensors = [t.requires_grad_() for t in inputs(*lengths)]
    actual = contract.load(name).attention(*tensors, causal=True, scale=0.3)
    expected = eager.attention(*tensors, causal=True, scale=0.3)
    assert torch.allclose(actual, expected, atol=1e-5)
    for grads in zip(
        torch.autograd.grad(actual.sum(), tensors),
        torch.autograd.grad(expected.sum(), tensors),
        strict=True,
    ):
        assert torch.allclose(*grads, atol=1e-4)


def test_other_calls_keep_their_choice_of_backends():
    flags = (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.flash_sdp_enabled)
    before = [flag() for flag in flags]
    contract.load("sdpa_math").attention(*inputs(), causal=True, scale=0.25)
    with pytest.raises(RuntimeError):
        contract.load("sdpa_cudnn").attention(*inputs(), causal=True, scale=0.25)
    assert [flag() for flag in flags] == before


@pytest.mark.parametrize("name", ["sdpa_efficient", "sdpa_cudnn"])
def test_a_backend_for_gpus_says_so_and_never_falls_back(name):
    implementation = contract.load(name)
    assert "for GPUs only" in implementation.supports(spec(), CPU)
    with pytest.raises(RuntimeError):
        implementation.attention(*inputs(), causal=False, scale=0.25)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_torch_can_do_on_a_cpu_is_not_refused(name, dtype):
    supports = contract.load(name).supports
    for lengths in ((33, 33), (17, 33), (33, 17), (1, 1)):
        wanted = spec(query_length=lengths[0], key_length=lengths[1], dtype=dtype)
        assert supports(wanted, CPU) is None


@pytest.mark.parametrize("name", PINNED)
def test_a_gpu_that_torch_cannot_see(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "sees no GPU" in contract.load(name).supports(spec(), GPU)


def test_the_reason_is_what_torch_said_of_this_backend():
    claims = [
        "Memory efficient kernel not used because: (Triggered internally at a.cpp:1.)",
        "Mem efficient attention has been runtime disabled. (Triggered internally at a.cpp:2.)",
        "cuDNN attention kernel not used because: (Triggered internally at a.cpp:3.)",
        "head_dim should be no more than 128 (Triggered internally at a.cpp:4.)",
    ]
    error = RuntimeError("No available kernel. Aborting execution.")
    arguments = (SDPBackend.CUDNN_ATTENTION, torch.device("cpu"))
    reason = _sdpa._reason(claims, error, *arguments)
    assert reason.endswith("CUDNN_ATTENTION kernel on cpu: head_dim should be no more than 128")
    assert _sdpa._reason([], error, *arguments).endswith("Aborting execution.")


def test_only_what_a_kernel_cannot_read_is_copied():
    plain = torch.randn(2, 4, 33, 16)
    for tensor in (plain, plain.transpose(1, 2), plain[:, :, 5:], plain[..., :8], plain[:1, :1]):
        assert readable(tensor) is tensor
    for tensor in (plain[..., ::2], plain.mT, plain[:1].expand(2, -1, -1, -1)):
        copy = readable(tensor)
        assert copy.is_contiguous() and torch.equal(copy, tensor)


def test_fully_masked_queries_get_zeros_and_an_lse_of_minus_infinity():
    def attention(q, k, v):
        assert q.shape[1] == k.shape[1] == 3
        return torch.ones_like(q), torch.ones(q.shape[0], q.shape[2], q.shape[1])

    q, k = torch.randn(2, 5, 4, 8), torch.randn(2, 3, 4, 8)
    out, lse = skip_fully_masked(attention, q, k, k, causal=True, dim=1)
    assert out.shape == q.shape and (out[:, :2] == 0).all() and (out[:, 2:] == 1).all()
    assert (lse[..., :2] == float("-inf")).all() and (lse[..., 2:] == 1).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", PINNED)
def test_what_is_said_on_a_gpu_is_what_happens(name, dtype):
    """A workload that is not refused runs and is right; one that is refused would have raised."""
    implementation = contract.load(name)
    lengths = [(64, 64), (17, 96), (96, 17), (1, 96), (5, 1)]
    for (queries, keys), head_dim, kv_heads in product(lengths, (20, 64, 128, 256), (4, 2)):
        wanted = spec(
            kv_heads=kv_heads, query_length=queries, key_length=keys, head_dim=head_dim, dtype=dtype
        )
        shapes = [(2, 4, queries, head_dim)] + 2 * [(2, kv_heads, keys, head_dim)]
        setting = {"device": "cuda", "dtype": getattr(torch, dtype), "requires_grad": True}
        tensors = [torch.randn(shape, **setting) for shape in shapes]
        reason = implementation.supports(wanted, GPU)
        if reason is not None:
            with pytest.raises(RuntimeError):
                implementation.attention(*tensors, causal=True, scale=0.1)
            continue
        actual = implementation.attention(*tensors, causal=True, scale=0.1)
        expected = eager.attention(*(t.float() for t in tensors), causal=True, scale=0.1)
        tolerance = 1e-4 if dtype == "float32" else 3e-2
        assert torch.allclose(actual.float(), expected, atol=tolerance), wanted.name
        torch.autograd.grad(actual.sum(), tensors)


FEW = {"heads": 4, "kv_heads": 4, "query_length": 1024, "key_length": 1024, "head_dim": 64}
MANY = {
    "batch": 4, "heads": 32, "kv_heads": 8, "query_length": 2048, "key_length": 2048,
    "head_dim": 128,
}  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "training", "measured"),
    [(FEW, False, 5_342_208), (MANY, False, 68_158_464), (MANY, True, 572_523_520)],
)
def test_flash_memory_is_what_an_h200_allocated(monkeypatch, shape, training, measured):
    """Peaks of torch 2.11 there; 1 KiB more than the formula says is the seed of its dropout. Few
    queries took five times the output, because the keys were divided into two parts."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    here = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: here)
    given = spec(**shape, dtype="bfloat16")
    held = memory(given, training=training, device="cuda")
    assert measured - sum(held.values()) == 1024


def test_keys_are_divided_where_there_are_few_queries():
    assert key_splits(spec(**FEW), multiprocessors=132) == 2
    assert key_splits(spec(**MANY), multiprocessors=132) == 1
    # One query: eight kv heads of 264 places, and 64 blocks of keys to share out.
    decode = spec(**{**MANY, "batch": 1, "query_length": 1, "key_length": 8192})
    assert key_splits(decode, multiprocessors=132) == 32
    assert key_splits(replace(decode, key_length=128), multiprocessors=132) == 1
