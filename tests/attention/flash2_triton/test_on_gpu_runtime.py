"""flash2_triton compiled, on a GPU: graphs, compilers, huge tensors and other processes."""

import hashlib
import subprocess
import sys
from dataclasses import replace

import pytest
from new_process import ROOT, environment

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

from flash2_problem import GPU, Problem

from assay.attention.sequence import flash2_triton
from assay.attention.sequence.flash2_triton.operator import flash2


def bytes_free() -> int:
    return torch.cuda.mem_get_info()[0]


def test_a_graph_records_and_replays():
    """Everything is recorded, and new inputs and new borders of sequences are seen by a replay."""
    problem = replace(GPU, queries=300, keys=300)
    given = problem.tensors()
    inputs = [given[name].requires_grad_() for name in ("q", "k", "v")]
    starts = torch.tensor([0, 100, 300], dtype=torch.int32, device="cuda")

    def step() -> tuple[torch.Tensor, ...]:
        out = flash2_triton.attention(
            *inputs, causal=True, scale=0.125, cu_seqlens=(starts, starts)
        )
        return out, *torch.autograd.grad(out, inputs, given["grad_out"])

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    for first in (100, 1, 299, 0):
        with torch.no_grad():
            starts[1] = first
            inputs[0].normal_()
        graph.replay()
        assert all(map(torch.equal, recorded, step()))


def test_nothing_waits_for_the_device():
    problem = replace(GPU, batch=2, lengths=(130, 3), window=9)
    packed = replace(GPU, starts=((0, 40, 97), (0, 90, 130)))
    for each in (problem, packed):
        each.results()  # compiled
        given, extras = each.tensors(), each.extras()
        inputs = [given[name].requires_grad_() for name in ("q", "k", "v")]
        torch.cuda.set_sync_debug_mode("error")
        try:
            out = flash2_triton.attention(*inputs, causal=True, scale=0.125, **extras)
            torch.autograd.grad(out, inputs, given["grad_out"])
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_in_one_graph(dynamic):
    torch._dynamo.reset()

    def call(q, k, v, lengths):
        out = flash2_triton.attention(
            q * 1.5, k, v, causal=True, scale=0.125, lengths=lengths, window=50
        )
        return out.relu()

    compiled = torch.compile(call, fullgraph=True, dynamic=dynamic)
    for keys in (130, 150):
        problem = replace(GPU, batch=2, keys=keys)
        given = problem.tensors()
        inputs = [given[name].requires_grad_() for name in ("q", "k", "v")]
        lengths = torch.tensor([keys, 7], dtype=torch.int32, device="cuda")
        outs = [f(*inputs, lengths) for f in (call, compiled)]
        assert torch.allclose(*outs, atol=1e-2)
        grads = [torch.autograd.grad(out, inputs, given["grad_out"]) for out in outs]
        assert all(torch.allclose(a, b, atol=2e-2, rtol=2e-2) for a, b in zip(*grads, strict=True))


def test_compiled_with_graphs():
    torch._dynamo.reset()
    given = GPU.tensors()
    inputs = [given[name] for name in ("q", "k", "v")]

    def call(*x: torch.Tensor) -> torch.Tensor:
        return flash2_triton.attention(*x, causal=True, scale=0.125)

    compiled = torch.compile(call, fullgraph=True, mode="reduce-overhead")
    for _ in range(3):
        assert torch.equal(compiled(*inputs), call(*inputs))


def test_operator_rules():
    given = replace(GPU, batch=2, dtype="float32", queries=9, keys=9).tensors()
    inputs = [given[name].requires_grad_() for name in ("q", "k", "v")]
    lengths = torch.tensor([9, 4], dtype=torch.int32, device="cuda")
    torch.library.opcheck(flash2, (*inputs, True, 0.3, 5, lengths, None, None, None))


def test_the_function():
    given = replace(GPU, heads=1).tensors()
    q, k, v, grad = (given[n][:, 0].clone() for n in ("q", "k", "v", "grad_out"))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    out = flash2_triton.FlashAttention2.apply(q, k, v, True)
    tensors = (out, *torch.autograd.grad(out, (q, k, v), grad))
    expected = replace(GPU, heads=1).results()
    for name, tensor in zip(("out", "dq", "dk", "dv"), tensors, strict=True):
        assert torch.equal(tensor, expected[name][:, 0])


@pytest.mark.skipif(
    torch.cuda.is_available() and bytes_free() < 60 * 2**30, reason="needs 60 GiB of GPU memory"
)
def test_more_than_two_to_the_31_elements():
    """Many short sequences: offsets of a batch entry, and pairs times rows, need 64 bits."""
    batch, heads, length, dim = 131_200, 2, 64, 128
    assert batch * heads * length * dim > 2**31
    problem = replace(
        GPU, batch=1, heads=heads, kv_heads=heads, queries=length, keys=length, head_dim=dim
    )
    expected, given = problem.results(), problem.tensors()
    shape = (batch, heads, length, dim)
    big = {name: tensor.expand(shape).contiguous() for name, tensor in given.items()}
    inputs = [big[name].requires_grad_() for name in ("q", "k", "v")]
    out, lse = flash2_triton.attention(*inputs, causal=True, scale=problem.scale, lse=True)
    grads = torch.autograd.grad(out, inputs, big["grad_out"])
    actual = dict(zip(("out", "lse", "dq", "dk", "dv"), (out, lse, *grads), strict=True))
    for name, tensor in actual.items():
        for entry in (0, 1, batch // 2, 131_071, 131_072, batch - 1):
            assert torch.equal(tensor[entry], expected[name][0]), f"{name} of entry {entry}"


@pytest.mark.skipif(
    torch.cuda.is_available() and bytes_free() < 60 * 2**30, reason="needs 60 GiB of GPU memory"
)
@pytest.mark.parametrize("axis", [2, 3])
def test_strides_beyond_two_to_the_31(axis):
    """Rows, or dims, that lie 2**27 elements apart: the last is beyond 2**31."""
    problem = replace(GPU, heads=1, queries=20, keys=20, head_dim=24)

    def far(tensor: torch.Tensor) -> torch.Tensor:
        inner = tensor.movedim(axis, 0)  # [far, ...]
        room = torch.empty(inner.shape[0], 2**27, dtype=tensor.dtype, device="cuda")
        room[:, : inner[0].numel()] = inner.reshape(inner.shape[0], -1)
        view = room[:, : inner[0].numel()].view(inner.shape).movedim(0, axis)
        assert view.stride(axis) == 2**27
        return view

    given = problem.tensors()
    expected = problem.results()
    q, k, v = (far(given[name]).detach().requires_grad_() for name in ("q", "k", "v"))
    out = flash2_triton.attention(q, k, v, causal=True, scale=problem.scale)
    assert torch.equal(out, expected["out"])
    gradients = torch.autograd.grad(out, (q, k, v), far(given["grad_out"]))
    for name, tensor in zip(("dq", "dk", "dv"), gradients, strict=True):
        assert torch.equal(tensor, expected[name])


HASHES = """
import sys
sys.path.insert(0, "tests/attention/flash2_triton")
from test_on_gpu_runtime import GPU, digest
print(digest(GPU))
"""


def digest(problem: Problem) -> str:
    """All bits of output and gradients."""
    hasher = hashlib.blake2b()
    for tensor in problem.results().values():
        hasher.update(tensor.detach().float().cpu().numpy().tobytes())
    return hasher.hexdigest()


def test_another_process_gives_the_same_bits():
    done = subprocess.run(
        [sys.executable, "-c", HASHES],
        cwd=ROOT,
        env=environment(ROOT / "tests"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == digest(GPU)


def test_cpu_tensors_are_refused():
    with pytest.raises(ValueError, match="cannot run on the CPU"):
        replace(GPU, device="cpu").results()
