"""flash_hopper on a Hopper GPU: accuracy at every configuration, repeats, graphs, compilers.

pytest tests/attention/flash_hopper/test_hopper_on_gpu.py -n 8
"""

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
    reason="needs a Hopper GPU",
)

from assay.attention.sequence import flash_hopper
from assay.attention.sequence.flash_hopper.launch import BY_NAME

# batch, query heads, kv heads, queries, keys
SHAPES = [
    (1, 1, 1, 1, 1), (1, 1, 1, 63, 63), (2, 2, 1, 113, 113), (1, 2, 2, 1023, 1023),
    (2, 4, 2, 64, 1), (1, 4, 1, 1, 777), (1, 2, 1, 300, 517), (1, 2, 2, 517, 300),
    (1, 1, 1, 1025, 129), (3, 8, 2, 257, 1000), (8, 17, 17, 513, 640), (1, 6, 3, 2049, 2175),
]  # fmt: skip


def inputs(shape, head_dim, dtype, *, rows_first: bool = False):
    batch, heads, kv_heads, queries, keys = shape
    torch.manual_seed(queries * 7 + keys)
    made = []
    for count, length in ((heads, queries), (kv_heads, keys), (kv_heads, keys)):
        size = (batch, length, count, head_dim) if rows_first else (batch, count, length, head_dim)
        tensor = torch.randn(size, device="cuda").to(dtype)
        made.append(tensor.transpose(1, 2) if rows_first else tensor)
    return made


def expected(q, k, v, *, causal, scale, low: bool):
    """Output and normaliser in float64, or the output with weights rounded to q's dtype."""
    group = q.shape[1] // k.shape[1]
    wide = torch.float32 if low else torch.float64
    q, k, v = (
        x.to(wide) for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))
    )
    scores = q @ k.mT * scale
    queries, keys = scores.shape[-2:]
    if causal:
        seen = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)
        scores = scores.masked_fill(~seen, -math.inf)
    lse = scores.logsumexp(-1)
    if not low:
        weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0)[..., None])
        return weights @ v, lse
    top = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - top.masked_fill(top == -math.inf, 0))
    divisor = weights.sum(-1, keepdim=True).clamp_min(1e-30)
    return weights, divisor, v


def assert_right(q, k, v, *, causal, config=None, scale=None):
    scale = scale or q.shape[3] ** -0.5
    out, lse = flash_hopper.attention(q, k, v, causal=causal, scale=scale, lse=True, config=config)
    right, right_lse = expected(q, k, v, causal=causal, scale=scale, low=False)
    weights, divisor, values = expected(q, k, v, causal=causal, scale=scale, low=True)
    plain = ((weights.to(q.dtype).float() @ values) / divisor).to(q.dtype)
    error, fair = (out.double() - right).abs(), (plain.double() - right).abs()
    assert error.max() <= 2 * fair.max() + 1e-6
    assert error.mean() <= 1.3 * fair.mean() + 1e-9
    blind = right_lse == -math.inf
    assert torch.equal(lse == -math.inf, blind)
    assert not out[blind].any()
    difference = (lse.double() - right_lse)[~blind].abs()
    assert not len(difference) or difference.max() <= 2e-5 * max(1, right_lse[~blind].abs().max())


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("config", flash_hopper.CONFIGS)
def test_every_configuration(config, dtype, causal):
    for shape in SHAPES:
        for rows_first in (False, True):
            made = inputs(shape, BY_NAME[config].head_dim, dtype, rows_first=rows_first)
            assert_right(*made, causal=causal, config=config)


@pytest.mark.parametrize("size", [1e-3, 10.0, 40.0])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_extreme_logits(head_dim, size):
    q, k, v = inputs((1, 2, 2, 300, 517), head_dim, torch.bfloat16)
    assert_right(q * size, k * size, v, causal=True)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_a_hundred_repeats_are_bit_equal(head_dim):
    q, k, v = inputs((2, 16, 4, 2048, 2048), head_dim, torch.bfloat16)
    first = flash_hopper.attention(q, k, v, causal=True, scale=0.1)
    for _ in range(100):
        assert torch.equal(flash_hopper.attention(q, k, v, causal=True, scale=0.1), first)


def test_what_lies_beside_the_inputs_is_not_read():
    """Keys beyond the last are fetched as zeros, not as what follows in memory."""
    q, k, v = inputs((2, 4, 2, 130, 130), 128, torch.bfloat16)
    poisoned = []
    for tensor in (q, k, v):
        whole = torch.full((*tensor.shape[:2], 256, 128), math.nan, dtype=q.dtype, device="cuda")
        whole[:, :, :130] = tensor
        poisoned.append(whole[:, :, :130])
    for causal in (True, False):
        plain = flash_hopper.attention(q, k, v, causal=causal, scale=0.1)
        assert torch.equal(
            flash_hopper.attention(*poisoned, causal=causal, scale=0.1), plain.contiguous()
        )


def test_inputs_that_tma_cannot_read_are_copied():
    q, k, v = inputs((1, 2, 2, 65, 65), 64, torch.bfloat16)
    right = flash_hopper.attention(q, k, v, causal=True, scale=0.1)
    views = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v)]
    assert torch.equal(flash_hopper.attention(*views, causal=True, scale=0.1), right)
    holder = torch.empty(q.numel() + 1, dtype=q.dtype, device="cuda")
    shifted = holder[1:].view(q.shape).copy_(q)
    assert torch.equal(flash_hopper.attention(shifted, k, v, causal=True, scale=0.1), right)
    wide = q[:, :1].expand(-1, 4, -1, -1)
    out = flash_hopper.attention(wide, k, v, causal=True, scale=0.1)
    assert torch.equal(out, flash_hopper.attention(wide.contiguous(), k, v, causal=True, scale=0.1))


def test_a_graph_replays_it():
    q, k, v = inputs((2, 4, 2, 500, 500), 128, torch.bfloat16)
    flash_hopper.attention(q, k, v, causal=True, scale=0.1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = flash_hopper.attention(q, k, v, causal=True, scale=0.1)
    for seed in range(3):
        torch.manual_seed(seed)
        q.normal_()
        graph.replay()
        assert torch.equal(out, flash_hopper.attention(q, k, v, causal=True, scale=0.1))


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_gradients_through_a_compiler(head_dim):
    made = inputs((2, 4, 2, 200, 333), head_dim, torch.bfloat16)
    grads = []
    for call in (flash_hopper.attention, torch.compile(flash_hopper.attention, fullgraph=True)):
        leaves = [x.detach().requires_grad_() for x in made]
        out, lse = call(*leaves, causal=True, scale=0.1, lse=True)
        grads.append(torch.autograd.grad(out.float().square().sum() + lse.sum(), leaves))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*grads, strict=True))
    leaves = [x.double().requires_grad_() for x in made]
    out, lse = expected(*leaves, causal=True, scale=0.1, low=False)
    right = torch.autograd.grad(out.square().sum() + lse.sum(), leaves)
    for ours, exact in zip(grads[0], right, strict=True):
        assert (ours.double() - exact).norm() <= 0.02 * exact.norm()
