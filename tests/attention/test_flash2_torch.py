"""FlashAttention-2 in PyTorch: right against the reference, and as small in memory as it claims."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

from assay.attention import baseline, reference
from assay.attention.budget import allowances
from assay.attention.sequence import flash2_torch
from assay.attention.sequence.flash2_torch import FlashAttention2, attention, tiles
from assay.captures.inputs import make
from assay.workloads.spec import WorkloadSpec
from assay.workloads.visibility import visibility_mask


def spec(**given) -> WorkloadSpec:
    usual = {
        "batch": 2, "heads": 4, "kv_heads": 2, "query_length": 63, "key_length": 63,
        "head_dim": 16, "dtype": "float32", "causal": True, "seed": 5,
    }  # fmt: skip
    return WorkloadSpec(**{**usual, **given})


def tensors(arrays, dtype="float32"):
    return [torch.from_numpy(a).to(getattr(torch, dtype)).requires_grad_() for a in arrays]


def drawn(**given):
    w = make(spec(**given))
    return tensors((w.q, w.k, w.v), w.spec.dtype)


def assert_right(wanted: WorkloadSpec, *, scale=0.3, window=None, lengths=None):
    """Output, LSE and gradients within the budget of the float64 reference."""
    w = make(wanted)
    arrays = {"q": w.q, "k": w.k, "v": w.v, "grad_out": w.grad_out}
    queries, keys = wanted.query_length, wanted.key_length
    visible = visibility_mask(queries, keys, causal=wanted.causal, window=window or 0)[None, None]
    if lengths is not None:
        visible = visible & (np.arange(keys) < np.array(lengths)[:, None])[:, None, None]
    setting = {"causal": wanted.causal, "scale": scale, "visible": visible}
    expected = reference.attention(**arrays, **setting)
    plain = baseline.attention(**arrays, **setting, dtype=wanted.dtype)
    allowed = allowances(expected, plain, **arrays, **setting, dtype=wanted.dtype)

    inputs = tensors((w.q, w.k, w.v), wanted.dtype)
    extras = {"window": window, "lengths": None if lengths is None else torch.tensor(lengths)}
    out, lse = attention(*inputs, causal=wanted.causal, scale=scale, lse=True, **extras)
    grads = torch.autograd.grad(out, inputs, tensors([w.grad_out], wanted.dtype)[0])
    assert out.dtype == inputs[0].dtype and lse.dtype == torch.float32
    without = attention(*inputs, causal=wanted.causal, scale=scale, **extras)
    assert torch.equal(out, without)

    blind = np.isneginf(expected.lse)
    assert np.array_equal(np.isneginf(lse.detach().numpy()), blind)
    for tensor in (out.detach(), grads[0]):
        assert (tensor[torch.from_numpy(blind)] == 0).all()
    actual = dict(zip(("out", "dq", "dk", "dv"), (out, *grads), strict=True))
    actual["lse"] = lse.masked_fill(lse == float("-inf"), 0.0)[..., None]
    wanted_lse = np.where(blind, 0.0, expected.lse)[..., None]
    for name, tensor in actual.items():
        exact = wanted_lse if name == "lse" else getattr(expected, name)
        error = np.abs(tensor.detach().double().numpy() - exact)
        share = (error / allowed[name].largest).max()
        assert share <= 1, f"{name} on {wanted.name}: {share:.2f} of its budget"


EDGES = [(1, 1), (1, 300), (129, 127), (127, 129), (128, 256), (129, 257), (257, 64), (300, 300)]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", EDGES)
def test_around_the_edges_of_tiles(lengths, causal):
    assert_right(spec(query_length=lengths[0], key_length=lengths[1], causal=causal))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("heads", [(6, 2), (4, 1), (3, 3)])
def test_grouped_heads_in_half_precision(heads, dtype):
    assert_right(spec(heads=heads[0], kv_heads=heads[1], dtype=dtype, query_length=130))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [1, 5, 64, 1000])
@pytest.mark.parametrize("lengths", [(300, 300), (40, 290), (290, 40)])
def test_windows(lengths, window, causal):
    wanted = spec(query_length=lengths[0], key_length=lengths[1], causal=causal, batch=1)
    assert_right(wanted, window=window)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shown", [(0, 63), (17, 1)])
def test_hidden_keys_at_the_end(shown, causal):
    assert_right(spec(causal=causal), lengths=shown)
    assert_right(spec(causal=causal, query_length=20), lengths=shown, window=9)


@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
def test_any_size_of_logits(size):
    """At 300 the logits reach 1e4 and more, and the softmax is one-hot."""
    assert_right(spec(query_length=140, key_length=140), scale=0.25 * size)


def test_gradients_equal_finite_differences():
    generator = torch.Generator().manual_seed(1)
    shapes = [(1, 4, 5, 3), (1, 2, 7, 3), (1, 2, 7, 3)]
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    for tensor in inputs:
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(lambda *x: attention(*x, causal=True, scale=0.7), inputs)


@pytest.mark.parametrize("shape", [(3, 70, 16), (2, 4, 70, 16)])
def test_the_function_takes_three_and_four_dimensions(shape):
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    out = FlashAttention2.apply(q, k, v, True)
    saved = out.grad_fn.saved_tensors
    assert [t.shape for t in saved].count(torch.Size(shape[:-1])) == 1
    assert len(saved) == 5
    four = [t.detach().view(-1, 1, *shape[-2:]) for t in (q, k, v)]
    expected = attention(*four, causal=True, scale=16**-0.5).view(shape)
    assert torch.equal(out, expected)
    assert not torch.equal(FlashAttention2.apply(q, k, v), expected)
    out.sum().backward()
    assert q.grad.shape == k.grad.shape == v.grad.shape == torch.Size(shape)


def saved_bytes(length: int, *, dtype: str = "float32") -> int:
    inputs = drawn(query_length=length, key_length=length, dtype=dtype)
    seen = {}

    def pack(tensor):
        seen[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        attention(*inputs, causal=True, scale=0.25)
    return sum(seen.values())


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_what_is_saved_grows_with_the_length(dtype, size):
    """q and the output, k and v, and one float32 for each query of each head; nothing else."""
    lengths = (64, 200, 512)
    sizes = [saved_bytes(n, dtype=dtype) for n in lengths]
    assert sizes == [2 * (2 * 4 + 2 * 2) * n * 16 * size + 2 * 4 * n * 4 for n in lengths]
    exponent = math.log(sizes[-1] / sizes[0]) / math.log(lengths[-1] / lengths[0])
    assert exponent == pytest.approx(1.0, abs=1e-9)


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation gives."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = result if isinstance(result, tuple | list) else (result,)
        sizes = [x.numel() for x in given if isinstance(x, torch.Tensor)]
        self.elements = max(self.elements, *sizes, 0)
        return result


def test_no_score_matrix_is_ever_whole(monkeypatch):
    monkeypatch.setattr(tiles, "QUERY_TILE", 32)
    monkeypatch.setattr(tiles, "KEY_TILE", 32)
    length = 256
    inputs = drawn(query_length=length, key_length=length)
    with Largest() as largest:
        attention(*inputs, causal=False, scale=0.25).sum().backward()
    assert largest.elements == 2 * 4 * length * 16  # q; the score matrix has 16 times as many


def test_tiles_in_the_future_are_not_computed():
    q, k = torch.zeros(1, 1, 128, 4), torch.zeros(1, 1, 1024, 4)

    def starts(rows, length, **setting):
        setting = tiles.ScoreOptions(scale=1.0, **setting)
        return [c.start for c, _ in tiles.key_tiles(q, k, rows, length, setting)]

    assert starts(slice(0, 128), 1024, causal=True) == [0]
    assert starts(slice(512, 640), 1024, causal=True) == [0, 256, 512]
    assert starts(slice(512, 640), 1024, causal=True, window=10) == [256, 512]
    assert starts(slice(0, 128), 2048, causal=True) == []
    assert starts(slice(0, 128), 1024, causal=False) == [0, 256, 512, 768]


def test_one_gradient_at_a_time_and_an_expanded_one():
    together = drawn()
    out = attention(*together, causal=True, scale=0.25)
    grads = torch.autograd.grad(out.sum(), together)
    for index in range(3):
        alone = [t.detach().requires_grad_(i == index) for i, t in enumerate(together)]
        out = attention(*alone, causal=True, scale=0.25)
        gradient = torch.autograd.grad(out, alone[index], torch.ones(()).expand(out.shape))[0]
        assert torch.equal(gradient, grads[index])


def test_any_strides_and_untouched_inputs():
    inputs = [t.detach() for t in drawn(kv_heads=1)]
    kept = [t.clone() for t in inputs]
    expected = attention(*inputs, causal=True, scale=0.25)
    wide = [torch.full((*t.shape[:-1], 2 * t.shape[-1]), float("nan")) for t in inputs]
    for holder, tensor in zip(wide, inputs, strict=True):
        holder[..., ::2] = tensor
    strided = [w.transpose(1, 2).contiguous().transpose(1, 2)[..., ::2] for w in wide]
    assert torch.equal(attention(*strided, causal=True, scale=0.25), expected)
    assert all(map(torch.equal, inputs, kept))
    everywhere = [inputs[0], *(t[:1].expand(2, -1, -1, -1) for t in inputs[1:])]
    copied = [t.contiguous() for t in everywhere]
    actual = attention(*everywhere, causal=True, scale=0.25)
    assert torch.equal(actual, attention(*copied, causal=True, scale=0.25))


def test_second_derivatives_are_refused():
    inputs = drawn()
    out = attention(*inputs, causal=True, scale=0.25)
    grad = torch.autograd.grad(out.square().sum(), inputs[0], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_the_lse_is_natural_and_not_differentiable():
    q, k, v = drawn(kv_heads=4, causal=False)
    _, lse = flash2_torch.attention(q, k, v, causal=False, scale=0.25, lse=True)
    assert not lse.requires_grad
    expected = (0.25 * q @ k.mT).logsumexp(dim=-1)
    assert torch.allclose(lse, expected, atol=1e-5)
