"""flash2_triton as torch sees it: an operator with a shape rule, a gradient, and a Function."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from flash2_problem import Problem

from assay.attention.sequence import flash2_triton
from assay.attention.sequence.flash2_triton.operator import flash2

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="kernels are compiled here: see test_on_gpu.py"
)
INTEGERS = {"dtype": torch.int32}


def inputs(problem: Problem, *, grad: bool = True) -> list[torch.Tensor]:
    given = problem.tensors()
    return [given[name].requires_grad_(grad) for name in ("q", "k", "v")]


@pytest.mark.parametrize(
    ("batch", "extras"),
    [
        (2, (True, 0.3, None, None, None, None, None)),
        (2, (False, 0.3, 3, torch.tensor([0, 7], **INTEGERS), None, None, "dq_m64_n32_w4_s2")),
        pytest.param(
            1,
            (True, 0.3, None, None, *[torch.tensor([0, 4, 4, 9], **INTEGERS)] * 2, None),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["plain", "lengths_and_window", "packed"],
)
@pytest.mark.sampled
def test_operator_rules(batch, extras):
    """torch's own checks: schema, fake tensors, autograd, and tracing with dynamic shapes."""
    problem = Problem(batch=batch, queries=9, keys=9, dtype="float32")
    torch.library.opcheck(flash2, (*inputs(problem), *extras))


@pytest.mark.slow
def test_operator_rules_for_a_layout_of_its_own():
    problem = Problem(batch=2, queries=9, keys=9, dtype="float32")
    given = [t.detach().transpose(1, 2).contiguous().transpose(1, 2) for t in inputs(problem)]
    given = [tensor.requires_grad_() for tensor in given]
    torch.library.opcheck(flash2, (*given, True, 0.3, None, None, None, None, None))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_in_one_graph(backend):
    problem = Problem(queries=9, keys=12, dtype="float32")

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor):
        out, lse = flash2_triton.attention(
            q + 0, k, v, causal=True, scale=0.3, lse=True, lengths=lengths, window=5
        )
        return out * 2, lse

    lengths = torch.tensor([11], **INTEGERS)
    torch._dynamo.reset()
    compiled = torch.compile(call, backend=backend, fullgraph=True)
    given = inputs(problem)
    expected, actual = call(*given, lengths), compiled(*given, lengths)
    assert all(map(torch.equal, actual, expected))
    grads = [torch.autograd.grad(outputs[0].sum(), given) for outputs in (expected, actual)]
    assert all(map(torch.equal, *grads))


def test_one_graph_serves_all_lengths():
    graphs = []

    def backend(graph: torch.fx.GraphModule, example: list[torch.Tensor]):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(flash2_triton.attention, backend=backend, fullgraph=True, dynamic=True)
    for queries, keys in ((9, 12), (12, 40), (30, 11)):
        given = inputs(Problem(queries=queries, keys=keys, dtype="float32"), grad=False)
        setting = {"causal": True, "scale": 0.3, "window": 5}
        actual = compiled(*given, **setting)
        assert torch.equal(actual, flash2_triton.attention(*given, **setting))
    assert len(graphs) == 1


def test_the_function_compiles_in_one_graph():
    torch._dynamo.reset()
    compiled = torch.compile(
        flash2_triton.FlashAttention2.apply, backend="aot_eager", fullgraph=True
    )
    given = inputs(Problem(queries=9, keys=12, dtype="float32"))
    expected, actual = flash2_triton.FlashAttention2.apply(*given, True), compiled(*given, True)
    assert torch.equal(actual, expected)
    grads = [torch.autograd.grad(out.sum(), given) for out in (expected, actual)]
    assert all(map(torch.equal, *grads))


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("heads", [None, 2])
def test_the_function(heads, is_causal):
    """Without a head axis and with one: as `attention` gives it, and one saved row statistic."""
    problem = Problem(batch=2, heads=heads or 1, queries=33, keys=40, dtype="float32")
    given = problem.tensors()
    q, k, v = (given[n].clone().requires_grad_() for n in ("q", "k", "v"))
    expected = flash2_triton.attention(q, k, v, causal=is_causal, scale=16**-0.5)
    gradients = torch.autograd.grad(expected, (q, k, v), given["grad_out"])

    squeeze = (lambda t: t[:, 0]) if heads is None else (lambda t: t)
    q, k, v = (squeeze(given[n]).clone().requires_grad_() for n in ("q", "k", "v"))
    out = flash2_triton.FlashAttention2.apply(q, k, v, is_causal)
    assert torch.equal(out, squeeze(expected))
    saved = [t for t in out.grad_fn.saved_tensors if t.shape == q.shape[:-1]]
    assert len(saved) == 1 and len(out.grad_fn.saved_tensors) == 5
    out.backward(squeeze(given["grad_out"]))
    for tensor, gradient in zip((q, k, v), gradients, strict=True):
        assert torch.equal(tensor.grad, squeeze(gradient))


def test_the_function_with_one_gradient():
    given = inputs(Problem(queries=9, keys=12, dtype="float32"), grad=False)
    given[2].requires_grad_()
    out = flash2_triton.FlashAttention2.apply(*given, True)
    out.sum().backward()
    assert given[0].grad is None and given[1].grad is None and given[2].grad.isfinite().all()


def test_a_second_gradient_is_refused():
    given = inputs(Problem(queries=9, keys=12, dtype="float32"))
    out = flash2_triton.attention(*given, causal=True, scale=0.3)
    grad = torch.autograd.grad(out.sum(), given[0], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="flash2_triton_backward"):
        grad.sum().backward()
