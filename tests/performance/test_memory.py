"""Memory above the inputs: measured, explained by tensor, saved for the backward."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from bound_calls import bound, probed, written

from assay.errors import BadInput
from assay.instruments.reading import Peak, Reading
from assay.performance.memory import formula
from assay.performance.probes import memory

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="this kernel cannot reset a process's peak"
)
# What the formulas may leave unexplained of a peak: small tensors that they do not name.
UNEXPLAINED = 16 * 1024


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """For the process that is measured, which inherits it."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_NUM_THREADS", "1")


def parts(results, metric):
    return {name.partition(".")[2]: m.value for name, m in results.items() if f"{metric}." in name}


@pytest.mark.parametrize("metric", ["forward_peak_bytes", "training_peak_bytes"])
@pytest.mark.parametrize("name", ["eager", "flash2_torch", "sdpa_math"])
def test_formulas_explain_the_peak(name, metric):
    """eager at 1024 tokens takes 34 and 36 MB, flash2_torch 1.4 and 3.3 MB."""
    results = measured(name, "b1_h2_s1024_d64")
    explained = parts(results, metric)
    assert sum(explained.values()) == results[metric].value
    assert abs(explained["unexplained"]) < UNEXPLAINED
    assert "isolated process" in results[metric].source


_MEASURED = {}


def measured(name: str, workload: str):
    if (name, workload) not in _MEASURED:
        _MEASURED[name, workload] = probed(memory, bound(name, workload))
    return _MEASURED[name, workload]


def test_eager_grows_with_the_square_of_the_length_and_flash2_with_the_length():
    """Scores of eager are four times as many; of flash2 only the output and LSE grow."""
    small, large = (
        measured("eager", f"b1_h2_s{n}_d64")["forward_peak_bytes"] for n in (1024, 2048)
    )
    assert abs(large.value - 4 * small.value) < 5 * UNEXPLAINED
    small, large = (
        measured("flash2_torch", f"b1_h2_s{n}_d64")["forward_peak_bytes"] for n in (1024, 4096)
    )
    grown = 2 * (4096 - 1024) * (64 * 4 + 4)
    assert abs(large.value - small.value - grown) < 2 * UNEXPLAINED


@pytest.mark.parametrize(
    ("read", "saved", "problem"),
    [
        (2 * 64 * 32 * 4 - 1, 0, "less than the 16,384 B of its results"),
        (4 * 2 * 64 * 32 * 4, 70_000, "less than the 70,000 B of what is saved"),
    ],
)
def test_a_peak_below_what_was_there_is_null(monkeypatch, read, saved, problem):
    """0 B for an output of 1 MiB, and training below what autograd saves, stood in a bench."""
    call = bound("eager", "b1_h2_s64_d32")
    instruments = call.framework
    monkeypatch.setattr(instruments, "peak", lambda *_, **__: Peak(value=read, source="a test"))
    monkeypatch.setattr(instruments, "saved_bytes", lambda *_: Reading(value=saved))
    results = probed(memory, call)
    metric = "training_peak_bytes" if saved else "forward_peak_bytes"
    assert results[metric].value is None and problem in results[metric].reason
    assert results[f"{metric}.unexplained"].value is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_saved_bytes_are_exact(dtype):
    """eager keeps softmax, the weights that it multiplies, and two masks; flash2_torch the output
    and a float32 for each row."""
    size = 4 if dtype == "float32" else 2
    scores, rows = 3 * 4 * 65 * 65, 3 * 4 * 65
    call = bound("eager", f"b3_h4_s65_d32_{dtype}")
    saved = call.framework.saved_bytes(call.apply, call.inputs, call.options)
    assert saved.value == scores * 4 + scores * size + 65 * 65 + 65
    call = bound("flash2_torch", f"b3_h4_s65_d32_{dtype}")
    saved = call.framework.saved_bytes(call.apply, call.inputs, call.options)
    assert saved.value == rows * 32 * size + rows * 4


def test_masks_that_were_given_are_not_saved_bytes():
    call = bound("flash2_torch", "b2_h2_s33_d16_padded")
    saved = call.framework.saved_bytes(call.apply, call.inputs, call.options)
    assert saved.value == 2 * 2 * 33 * (16 * 4 + 4)


def test_an_implementation_without_backward_says_so(tmp_path):
    path = written(tmp_path, "plain", "return (q @ k.mT).softmax(-1) @ v", head="BACKWARD = False")
    results = probed(memory, bound(path, "b1_h2_s64_d32_full"))
    assert results["forward_peak_bytes"].value > 0
    assert set(parts(results, "forward_peak_bytes")) == {"out", "unexplained"}
    for metric in ("training_peak_bytes", "saved_bytes"):
        assert results[metric].value is None and "no backward" in results[metric].reason


def test_what_was_read_before_memory_ran_out_is_kept(monkeypatch):
    """A device's allocator refuses the backward: its cache is emptied, forward stands."""
    call, emptied = bound("eager", "b1_h2_s64_d32"), []

    def peak(apply, inputs, grad_out=None, *, device):
        if grad_out is not None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
        return Peak(value=70_000, source="allocator", reserved_bytes=9, allocated_bytes=8)

    def short(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB")

    monkeypatch.setattr(call.framework, "peak", peak)
    monkeypatch.setattr(call.framework, "saved_bytes", short)
    monkeypatch.setattr(call.framework, "empty_cache", emptied.append)
    results = probed(memory, call)
    assert results["forward_peak_bytes"].value == 70_000
    training, rest = results["training_peak_bytes"], results["training_peak_bytes.unexplained"]
    assert training.status == "oom" and "9 GiB" in training.reason
    assert rest.value is None and "9 GiB" in rest.reason
    assert training.alone  # an outcome that is not is tried again, and what was read twice over
    assert results["saved_bytes"].status == "oom" and "3 GiB" in results["saved_bytes"].reason
    assert results["reserved_peak_bytes"].value == 9
    assert "of forward," in results["reserved_peak_bytes"].source
    assert emptied == ["cpu", "cpu"]


def test_what_fails_otherwise_is_not_taken_for_a_lack_of_memory(monkeypatch):
    call = bound("eager", "b1_h2_s64_d32")

    def wrong(*_):
        raise ValueError("not today")

    monkeypatch.setattr(call.framework, "saved_bytes", wrong)
    monkeypatch.setattr(call.framework, "peak", lambda *_, **__: Peak(value=7))
    with pytest.raises(ValueError, match="not today"):
        memory.measure(call, call.workload, call.host)


def test_a_formula_that_says_too_much_is_told():
    lines = formula.broken_down("peak", Peak(value=100), {"out": 60, "scores": 90})
    rest = lines[-1]
    assert rest.metric == "peak.unexplained" and rest.value == -50
    assert "says more than there was" in rest.source


def test_parts_of_an_unmeasured_peak_leave_the_rest_unknown():
    lines = formula.broken_down("peak", Peak(value=None, reason="no luck"), {"out": 60})
    assert lines[1].value == 60
    assert lines[-1].value is None and "no luck" in lines[-1].reason


@pytest.mark.parametrize("given", ["{'out': -1}", "{'unexplained': 1}", "{'out': 1.5}", "7"])
def test_a_formula_that_makes_no_sense_is_refused(tmp_path, given):
    path = written(tmp_path, f"odd{abs(hash(given))}", "return q")
    with path.open("a") as file:
        file.write(f"\n\ndef memory(spec, *, training, device):\n    return {given}\n")
    with pytest.raises(BadInput, match="wanted bytes by tensor name"):
        formula.parts(bound(path, "b1_h1_s16_d16"), training=False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["eager", "flash2_triton", "sdpa_flash"])
def test_on_a_gpu_the_allocator_is_explained(name):
    """Every part is a tensor that torch's allocator gave out, in granules of 512 bytes."""
    results = probed(memory, bound(name, "b2_h4_s1024_d64_float16", device="cuda:0"))
    for metric in ("forward_peak_bytes", "training_peak_bytes"):
        explained = parts(results, metric)
        assert sum(explained.values()) == results[metric].value
        assert abs(explained["unexplained"]) < 0.02 * results[metric].value
    assert results["reserved_peak_bytes"].value >= results["training_peak_bytes"].value
    assert results["fragmentation"].value >= 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_workspaces_of_cublas_have_a_line_of_their_own():
    """A matrix product makes cuBLAS keep a workspace, and the next one finds it again."""
    call = bound("eager", "b2_h4_s1024_d64_float16", device="cuda:0")
    results = probed(memory, call)
    line = results["workspace_bytes"]
    assert line.value > 0 and line.value % 512 == 0 and "cuBLAS" in line.source
    call()
    before = torch.cuda.memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()
    assert 0 < before - torch.cuda.memory_allocated() <= line.value  # of the forward pass alone
    again = probed(memory, call)
    assert again["workspace_bytes"].value == line.value
    for metric in ("forward_peak_bytes", "training_peak_bytes"):
        assert again[metric].value == results[metric].value  # it is in neither
    nothing = call.framework.workspace_bytes(torch.add, call.inputs[:2], device="cuda:0")
    assert nothing.value == 0


def test_on_a_cpu_there_is_no_line_of_workspaces():
    assert "workspace_bytes" not in measured("eager", "b1_h2_s1024_d64")
