"""torch.compile: programs made before and inside a context tell the same records, and behind it
nothing of the capture is in them."""

from itertools import product

import pytest
import torch
import torch_models as made

import assay
from assay.captures.store import Store
from assay.captures.torch import compiled as torch_compiled

ORDERS = ["compiled before", "compiled inside"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def graphs():
    """A backend that keeps what it is given to compile, and each program's calls."""
    kept = []

    def backend(module, example_inputs):
        from torch._dynamo.backends.debugging import aot_eager

        kept.append(module)
        return aot_eager(module, example_inputs)

    return kept, backend


def instrumented(module):
    return any("assay" in str(node.target) for node in module.graph.nodes)


def eager_records(model, path, *inputs):
    with assay.capturing(model, path):
        for x in inputs:
            model(x)
    return read(path)


def read(path):
    store = Store.open(path)
    return {
        (r.key.step, r.key.layer, r.key.site, r.key.call, r.phase, r.implementation): (
            store.read(r),
            r.scalars,
        )
        for r in store.manifest().records
    }


def same(records, expected):
    """To the last bit."""
    assert list(records) == list(expected)
    for key, (tensors, scalars) in expected.items():
        assert records[key][1] == scalars
        assert {name: tensor.digest() for name, tensor in records[key][0].items()} == {
            name: tensor.digest() for name, tensor in tensors.items()
        }


def close(records, expected, names=("x", "q", "k", "v", "out", "layer_out"), **how):
    """Compare `names` alone: traced, transformers may make a mask of what is a flag otherwise."""
    assert list(records) == list(expected)
    for key, (tensors, _) in expected.items():
        for name in names:
            pair = made.as_torch(records[key][0][name]), made.as_torch(tensors[name])
            torch.testing.assert_close(*pair, **how)


CHECKPOINTING = {"plain": None, "checkpoint": False, "reentrant": True}  # use_reentrant
COMBINATIONS = list(product(CHECKPOINTING, ORDERS, ["fullgraph", "with breaks"]))
# Every two values together at least once; all three together in `make test-full`.
PICKED = [
    ("plain", "compiled before", "fullgraph"),
    ("plain", "compiled inside", "with breaks"),
    ("checkpoint", "compiled before", "with breaks"),
    ("checkpoint", "compiled inside", "fullgraph"),
    ("reentrant", "compiled before", "fullgraph"),
    ("reentrant", "compiled inside", "with breaks"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("checkpointing", "order", "graph"),
    [pytest.param(*c, marks=() if c in PICKED else pytest.mark.slow) for c in COMBINATIONS],
)
@pytest.mark.sampled
def test_records_are_those_of_the_model_as_written(tmp_path, graphs, checkpointing, order, graph):
    kept, backend = graphs
    model = made.Plain(reentrant=CHECKPOINTING[checkpointing])
    x = made.inputs()
    expected = eager_records(model, tmp_path / "eager", x, x)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=graph == "fullgraph")
    if order == "compiled before":
        compiled(x).sum().backward()
        assert kept and not any(map(instrumented, kept))
    with assay.capturing(model, tmp_path / "compiled") as capture:
        for _ in range(2):
            compiled(x).sum().backward()
    assert instrumented(kept[-1])
    same(read(tmp_path / "compiled"), expected)
    assert not capture.report().duplicates
    behind(compiled, kept, order, x)


def behind(compiled, kept, order, x):
    """Behind the context a program without the capture runs: the old one where there is one."""
    before = len(kept)
    compiled(x)
    if order == "compiled before":
        assert len(kept) == before
    else:
        assert len(kept) == before + 1 and not instrumented(kept[-1])


def test_a_second_context_uses_the_programs_of_the_first(tmp_path, graphs):
    kept, backend = graphs
    model = made.Plain(layers=2)
    compiled = torch.compile(model, backend=backend)
    made_programs = []
    for name in ("first", "second", "third"):
        with assay.capturing(compiled, tmp_path / name, mode="shapes"):
            compiled(made.inputs())
        compiled(made.inputs())
        assert len(made.records(tmp_path / name)) == 2
        made_programs.append([instrumented(module) for module in kept])
    assert made_programs[0] == made_programs[1] == made_programs[2]
    assert made_programs[0][-1] is False


def test_a_program_made_while_another_model_is_captured(tmp_path):
    """It was made inside a capture and has no trace of one: in its own it must not be used."""
    first, second = made.Plain(layers=1), made.Plain(layers=1)
    compiled = torch.compile(second, backend="aot_eager")
    with assay.capturing(first, tmp_path / "one", mode="shapes"):
        compiled(made.inputs())
    with assay.capturing(second, tmp_path / "two", mode="shapes"):
        compiled(made.inputs())
    assert not made.records(tmp_path / "one") and len(made.records(tmp_path / "two")) == 1


def test_a_name_of_the_model_s_file(tmp_path):
    model = torch.nn.Sequential(made.KnowsFunction())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with assay.capturing(model, tmp_path, mode="shapes"):
        compiled(torch.randn(1, 2, 4, 8))
    (record,) = made.records(tmp_path)
    assert (record.key.site, record.key.layer) == ("", -1)  # a program does not tell which module


def test_graph_breaks(tmp_path):
    class BreaksAttention(made.SelfAttention):
        def forward(self, x):
            torch._dynamo.graph_break()
            return super().forward(x)

    model = made.Plain()
    for block in model.blocks:
        block.attn = BreaksAttention()
    x = made.inputs()
    expected = eager_records(model, tmp_path / "eager", x, x)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    with assay.capturing(model, tmp_path / "compiled"):
        compiled(x), compiled(x)
    same(read(tmp_path / "compiled"), expected)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "order", "backend"),
    [
        ("gpt2", "compiled inside", "eager"),
        pytest.param("llama", "compiled before", "aot_eager", marks=pytest.mark.slow),
        pytest.param("llama", "compiled inside", "aot_eager", marks=pytest.mark.slow),
        pytest.param("gpt2", "compiled before", "eager", marks=pytest.mark.slow),
    ],
)
@pytest.mark.sampled
def test_transformers(tmp_path, kind, order, backend):
    model = made.transformer(kind, layers=2).eval()
    ids = made.tokens()
    expected = eager_records(model, tmp_path / "eager", ids, ids)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    if order == "compiled before":
        compiled(ids)
    with assay.capturing(model, tmp_path / "compiled"):
        compiled(ids), compiled(ids)
    close(read(tmp_path / "compiled"), expected, ("x", "q", "k", "v"), rtol=0, atol=1e-6)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parts_that_are_compiled(tmp_path, backend):
    """Each block is compiled in place, the model around them is not."""
    model = made.Plain()
    x = made.inputs()
    expected = eager_records(model, tmp_path / "eager", x, x)
    torch._dynamo.reset()
    for block in model.blocks:
        block.compile(backend=backend)
    model(x)
    with assay.capturing(model, tmp_path / "compiled"):
        model(x), model(x)
    same(read(tmp_path / "compiled"), expected)


@pytest.mark.slow
def test_checkpointing_of_transformers_in_one_graph(tmp_path):
    model = made.transformer("llama", layers=2).train()
    model.gradient_checkpointing_enable()
    expected = eager_records(model, tmp_path / "eager", made.tokens())
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with assay.capturing(model, tmp_path / "compiled") as capture:
        compiled(made.tokens(), use_cache=False).logits.sum().backward()
    close(read(tmp_path / "compiled"), expected, ("x", "q", "k", "v"), rtol=0, atol=1e-6)
    assert not capture.report().duplicates


def test_what_is_not_wanted_is_not_taken(tmp_path):
    model = made.Plain()
    compiled = torch.compile(model, backend="aot_eager")
    with assay.capturing(model, tmp_path, every=2, layers="1"):
        for _ in range(4):
            compiled(made.inputs())
    assert [(r.key.step, r.key.layer) for r in made.records(tmp_path)] == [(0, 1), (2, 1)]


def test_autocast(tmp_path):
    model = made.Plain()
    compiled = torch.compile(model, backend="aot_eager")
    with assay.capturing(model, tmp_path), torch.autocast("cpu", torch.bfloat16):
        compiled(made.inputs())
    store = Store.open(tmp_path)
    for record in store.manifest().records:
        out, captured = made.replayed(store, record)
        assert captured.dtype == torch.bfloat16 and torch.equal(out, captured)


def test_a_program_that_nobody_listens_to_runs(tmp_path):
    """The operator alone, as a program that outlived its context would call it."""
    torch_compiled._define()
    torch.ops.assay.report("call", 10**6, -1, "q ", [torch.ones(1)], "", [], -1)


@pytest.mark.slow
def test_inductor_of_a_function_around_the_model(tmp_path):
    """The whole call lies in one program, with operators that have no tensors of their own."""
    model = made.transformer("llama", layers=2).train()
    expected = eager_records(model, tmp_path / "eager", made.tokens())
    torch._dynamo.reset()

    @torch.compile
    def loss(ids):
        return model(ids, labels=ids).loss * 2

    with assay.capturing(model, tmp_path / "compiled"):
        loss(made.tokens()).backward()
    close(read(tmp_path / "compiled"), expected)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["plain", "llama"])
def test_inductor(tmp_path, kind, order):
    model = made.Plain() if kind == "plain" else made.transformer(kind).train()
    x = made.inputs() if kind == "plain" else made.tokens()
    expected = eager_records(model, tmp_path / "eager", x, x)
    torch._dynamo.reset()
    compiled = torch.compile(model)
    if order == "compiled before":
        compiled(x)
    with assay.capturing(model, tmp_path / "compiled"):
        for _ in range(2):
            output = compiled(x)
            (output if kind == "plain" else output.logits).sum().backward()
    close(read(tmp_path / "compiled"), expected)
    store = Store.open(tmp_path / "compiled")
    for record in store.manifest().records:
        out, captured = made.replayed(store, record)
        assert torch.equal(out, captured)
