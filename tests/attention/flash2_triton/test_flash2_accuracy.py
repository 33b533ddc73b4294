"""flash2_triton against float64 with every configuration, mask, shape and layout it takes."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from flash2_problem import Problem

from assay.attention.sequence import flash2_triton

pytestmark = [
    pytest.mark.skipif(
        torch.cuda.is_available(), reason="kernels are compiled here: see test_on_gpu.py"
    ),
    # Weights that a mask then sets to zero.
    pytest.mark.filterwarnings("ignore:overflow encountered in exp2"),
]


@pytest.mark.sampled
@pytest.mark.parametrize("config", flash2_triton.CONFIGS)
def test_every_configuration(config):
    Problem(config=config, head_dim=24).assert_right()


@pytest.mark.parametrize(
    "config", ["forward_m64_n32_w4_s2", "dkdv_m32_n64_w8_s2", "dq_m32_n32_w8_s2"]
)
@pytest.mark.parametrize("window", [None, 20])
def test_configurations_without_causality(config, window):
    Problem(config=config, causal=False, window=window).assert_right()


@pytest.mark.sampled
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "lengths", [(1, 1), (1, 129), (65, 1), (63, 63), (129, 129), (64, 257), (257, 100)]
)
def test_awkward_lengths(lengths, causal):
    queries, keys = lengths
    Problem(queries=queries, keys=keys, causal=causal, dtype="float32").assert_right()


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("head_dim", [1, 8, 16, 24, 40, 80, 96, 192, 256])
def test_head_dims(head_dim, dtype):
    Problem(
        head_dim=head_dim, heads=1, queries=33, keys=50, scale=head_dim**-0.5, dtype=dtype
    ).assert_right()


@pytest.mark.parametrize("heads", [(3, 3), (3, 1), (8, 1), (6, 2)])
def test_grouped_heads(heads):
    Problem(heads=heads[0], kv_heads=heads[1], queries=33, keys=40).assert_right()


@pytest.mark.sampled
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [1, 5, 64, 100, 2**31])
def test_windows(window, causal):
    Problem(window=window, causal=causal, heads=1, queries=140, keys=150).assert_right()


@pytest.mark.slow
def test_a_window_over_many_tiles():
    """Rows that have seen nothing yet meet tiles which only later rows see, on both sides."""
    problem = Problem(window=70, heads=1, queries=200, keys=257, config="forward_m32_n16_w8_s2")
    problem.assert_right()
    replace(problem, causal=False, config="dkdv_m16_n32_w8_s2").assert_right()
    replace(problem, queries=257, keys=200, config="dq_m32_n16_w8_s2").assert_right()


@pytest.mark.sampled
@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_lengths(dtype, causal, window):
    Problem(
        batch=4, heads=1, queries=60, keys=130, lengths=(130, 0, 1, 67), causal=causal,
        window=window, dtype=dtype,
    ).assert_right()  # fmt: skip


def test_hidden_keys_have_no_gradient():
    actual = Problem(batch=3, lengths=(0, 5, 130)).results()
    for name in ("dk", "dv"):
        assert (actual[name][0] == 0).all() and (actual[name][1, :, 5:] == 0).all()
        assert (actual[name][2] != 0).any(dim=-1).all()
    assert (actual["out"][0] == 0).all() and actual["lse"][0].isneginf().all()


# Queries and keys of: both, no keys, no queries, neither, fewer queries, fewer keys, one of each.
PACKED = ((0, 70, 79, 79, 79, 90, 200, 201), (0, 70, 70, 80, 80, 170, 240, 241))


@pytest.mark.sampled
@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_packed_sequences(dtype, causal, window):
    actual = Problem(
        heads=1, queries=201, keys=241, starts=PACKED, causal=causal, window=window, dtype=dtype
    ).assert_right()
    assert (actual["out"][:, :, 70:79] == 0).all() and actual["lse"][:, :, 70:79].isneginf().all()
    assert (actual["dk"][:, :, 70:80] == 0).all() and (actual["dv"][:, :, 70:80] == 0).all()


@pytest.mark.slow
def test_many_short_packed_sequences_in_small_tiles():
    """The search for a tile's sequence, with many that have no rows."""
    queries = np.cumsum([0, 1, 0, 3, 2, 0, 0, 5, 40, 1, 0])
    keys = np.cumsum([0, 2, 3, 0, 2, 1, 0, 9, 40, 1, 3])
    problem = Problem(
        heads=1, queries=int(queries[-1]), keys=int(keys[-1]),
        starts=(tuple(queries.tolist()), tuple(keys.tolist())),
    )  # fmt: skip
    for config in ("forward_m32_n16_w8_s2", "dkdv_m16_n32_w8_s2", "dq_m32_n16_w8_s2"):
        replace(problem, config=config).assert_right()


def test_packed_sequences_are_as_if_each_came_alone():
    packed = Problem(heads=1, queries=201, keys=241, starts=PACKED, dtype="float32")
    actual, given = packed.results(), packed.tensors()
    alone = flash2_triton.attention(
        *(given[name][:, :, a:b] for name, a, b in (("q", 79, 90), ("k", 80, 170), ("v", 80, 170))),
        causal=True,
        scale=packed.scale,
    )
    assert torch.equal(actual["out"][:, :, 79:90], alone)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("size", [1e-3, 10.0, 60.0])
def test_extreme_logits(size, dtype):
    Problem(size=size, dtype=dtype).assert_right()


def test_scores_far_below_zero():
    """exp2(score - normaliser) overflows where a row or key does not exist; that must not count."""
    problem = Problem(dtype="float32", queries=70, keys=75, causal=False)
    given = problem.tensors()
    inputs = [40 * given["q"].abs(), -40 * given["k"].abs(), given["v"]]
    for tensor in inputs:
        tensor.requires_grad_()
    out, lse = flash2_triton.attention(*inputs, causal=False, scale=1.0, lse=True)
    assert lse.max() < -500
    expected = torch.softmax((inputs[0].double() @ inputs[1].double().mT), -1) @ inputs[2].double()
    assert torch.allclose(out.double(), expected, atol=1e-3)
    for grad in torch.autograd.grad(out, inputs, given["grad_out"]):
        assert grad.isfinite().all()


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """[batch, rows, heads, dims] in memory."""
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def dims_first(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Every second dim of a wider tensor, and not from its start; NaN between."""
    wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3), float("nan"))
    wide = wide.to(tensor.dtype)
    wide[..., 3::2] = tensor
    return wide[..., 3::2]


@pytest.mark.parametrize("view", [transposed, dims_first, strided], ids=lambda view: view.__name__)
def test_any_strides(view):
    problem = Problem(batch=2, queries=33, keys=40, view=view, dtype="float32")
    assert not problem.tensors()["q"].is_contiguous()
    actual = problem.assert_right()
    plain = replace(problem, view=lambda tensor: tensor).results()
    assert all(torch.equal(actual[name], plain[name]) for name in plain)


@pytest.mark.parametrize("axis", range(4))
def test_expanded_inputs_and_gradients(axis):
    """A gradient of a sum has stride 0 everywhere; keys shared by a batch have it in one axis."""

    def expanded(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.narrow(axis, 0, 1).expand(tensor.shape)

    problem = Problem(batch=2, heads=2, kv_heads=2, queries=33, keys=40, dtype="float32")
    plain = replace(problem, view=lambda tensor: expanded(tensor).contiguous()).results()
    actual = replace(problem, view=expanded).results()
    assert all(torch.equal(actual[name], plain[name]) for name in plain)


def test_a_gradient_without_strides():
    problem = Problem(dtype="float32")
    given = problem.tensors()
    inputs = [given[name].requires_grad_() for name in ("q", "k", "v")]
    out = flash2_triton.attention(*inputs, causal=True, scale=0.3)
    ones = torch.autograd.grad(out, inputs, torch.ones_like(out), retain_graph=True)
    grads = torch.autograd.grad(out.sum(), inputs)
    assert all(map(torch.equal, grads, ones))


def test_through_the_normaliser():
    """The gradient of a loss that also reads the normaliser, which is the sum of what both give."""
    problem = Problem(dtype="float32", queries=40, keys=33)  # the first rows see nothing
    given = {name: tensor.double() for name, tensor in problem.tensors().items()}
    weight = torch.arange(40.0)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        q, k, v = (given[name].to(dtype).requires_grad_() for name in ("q", "k", "v"))
        if dtype == torch.float32:
            out, lse = flash2_triton.attention(q, k, v, causal=True, scale=0.3, lse=True)
        else:
            scores = 0.3 * (q @ k.expand(-1, 2, -1, -1).mT)
            scores = scores.masked_fill(~torch.from_numpy(problem.visible().copy()), float("-inf"))
            lse, out = scores[:, :, 7:].logsumexp(-1), scores[:, :, 7:].softmax(-1)
            out = out @ v.expand(-1, 2, -1, -1)
        seeing = (out[:, :, -33:] * given["grad_out"][:, :, 7:].to(dtype)).sum()
        loss = seeing + (lse[:, :, -33:] * weight[7:]).sum()
        gradients.append(torch.autograd.grad(loss, (q, k, v)))
    for actual, expected in zip(*gradients, strict=True):
        assert torch.allclose(actual.double(), expected, atol=1e-4, rtol=1e-5)
