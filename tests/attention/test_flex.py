"""FlexAttention: compiled for every shape, right, and never silently not compiled."""

import shutil
from dataclasses import replace
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from assay import host
from assay.attention.sequence import _torch_compile, eager, flex
from assay.devices import Device
from assay.workloads.spec import WorkloadSpec

CPU = replace(host.inspect(), devices=(Device(kind="cpu", index=0, name="", memory_bytes=1),))
GPU = replace(CPU, devices=(Device(kind="cuda", index=0, name="H200", memory_bytes=1),))
SPEC = WorkloadSpec(
    batch=1, heads=2, kv_heads=1, query_length=20, key_length=20,
    head_dim=16, dtype="float32", causal=True, seed=0,
)  # fmt: skip


def inputs(queries=20, keys=20, *, dtype=torch.float32, dim=16):
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 2, queries, dim), (1, 1, keys, dim), (1, 1, keys, dim)]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


@pytest.fixture
def traced_only(monkeypatch):
    """Traces as ever but generates no code, which takes a compiler many seconds."""
    flex._compiled.cache_clear()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    yield
    flex._compiled.cache_clear()


def assert_right(tensors, *, tolerance=1e-5, **setting):
    actual = flex.attention(*tensors, scale=0.3, **setting)
    expected = eager.attention(*tensors, scale=0.3, **setting)
    assert actual.dtype == expected.dtype
    assert torch.allclose(actual.float(), expected.float(), atol=tolerance)


@pytest.mark.parametrize(
    ("lengths", "window", "causal"),
    [
        ((9, 20), None, True),
        ((20, 9), None, True),
        ((20, 9), 3, True),
        ((20, 9), 3, False),
        ((9, 20), None, False),
    ],
)
def test_masks(traced_only, lengths, window, causal):
    """A query that sees nothing gives zeros here too."""
    assert_right(inputs(*lengths), causal=causal, window=window)


def test_more_shapes_than_torch_recompiles_for(traced_only):
    with torch._dynamo.config.patch(recompile_limit=2, accumulated_recompile_limit=2):
        for length in range(5, 9):
            assert_right(inputs(length, length), causal=True)


def test_at_the_limit_torch_raises_instead_of_falling_to_eager(traced_only, monkeypatch):
    """With a code object that all shapes share, as it would be without precaution.

    Once 16 TFLOP/s were measured for a kernel that makes 300: beyond the limit torch had run the
    unfused form, with a warning that nobody saw.
    """
    monkeypatch.setattr(_torch_compile, "with_own_code", lambda function, name: function)
    with torch._dynamo.config.patch(recompile_limit=2):
        for length in (5, 6):
            assert_right(inputs(length, length), causal=True)
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            flex.attention(*inputs(7, 7), causal=True, scale=0.3)


def test_a_shape_is_compiled_once(traced_only):
    for scale in (0.3, 0.3, 0.4):
        flex.attention(*inputs(), causal=True, scale=scale)
    assert flex._compiled.cache_info().misses == 2


def test_no_backward_pass_on_a_cpu(traced_only):
    """Why BACKWARD is "gpu"."""
    tensors = [tensor.requires_grad_() for tensor in inputs()]
    with pytest.raises(Exception, match="does not support backward"):
        flex.attention(*tensors, causal=True, scale=0.3)


def test_what_is_refused(monkeypatch):
    assert flex.supports(SPEC, GPU) is None
    assert "head_dim 8 is below 16" in flex.supports(replace(SPEC, head_dim=8), GPU)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "SVE256")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert "for AVX2 alone; torch has SVE256" in flex.supports(SPEC, CPU)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "C++ compiler" in flex.supports(SPEC, CPU)


compiles_here = pytest.mark.skipif(
    flex.supports(SPEC, CPU) is not None, reason=str(flex.supports(SPEC, CPU))
)


@pytest.mark.slow
@compiles_here
@pytest.mark.parametrize(
    ("lengths", "dtype", "dim", "setting"),
    [
        ((63, 113), torch.float32, 32, {"causal": True}),
        ((113, 63), torch.bfloat16, 24, {"causal": True}),
        ((130, 130), torch.float16, 8, {"causal": False, "window": 5}),
        ((1, 130), torch.float32, 64, {"causal": False}),
    ],
)
def test_compiled(lengths, dtype, dim, setting):
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    tensors = inputs(*lengths, dtype=dtype, dim=dim)
    assert_right(tensors, tolerance=tolerance, **setting)
    blind = max(lengths[0] - lengths[1], 0) if setting["causal"] else 0
    assert (flex.attention(*tensors, scale=0.3, **setting)[:, :, :blind] == 0).all()


@pytest.mark.slow
@compiles_here
def test_compiled_for_more_shapes_than_the_limit():
    with torch._dynamo.config.patch(recompile_limit=1):
        for length in (21, 22):
            assert_right(inputs(length, length), causal=True)
