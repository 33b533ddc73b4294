"""Texts as they were raised, on the machines and versions that the table names."""

import os
import subprocess
import sys

import pytest

from assay.instruments import out_of_memory
from assay.instruments.out_of_memory import SPELLINGS, _DeviceMemory, held_by_others, ran_out
from assay.subjects.outcome import outcome_of

GIB = 1 << 30
RAISED = [
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)",
    "[enforce fail at alloc_cpu.cpp:113] data. DefaultCPUAllocator: not enough memory: you tried "
    "to allocate 9 bytes.",
    "CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 139.80 GiB of "
    "which 283.56 MiB is free. Process 1067 has 138.91 GiB memory in use.",
    "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated : 0",
    "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "Triton Error [CUDA]: out of memory",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 800.00GiB with allocator GPU_0_bfc "
    "on device 0. [executable_name='jit_broadcast_in_dim']",
    "RESOURCE_EXHAUSTED: Out of memory allocating 879609302220800 bytes.",
    "RESOURCE_EXHAUSTED: Failed to get configs for: 4 out of 7 instructions. See logs for all "
    "failures. Example failure: \nOut of memory while trying to allocate 4.00TiB",
]
ON_A_FULL_DEVICE = [
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    "Unable to initialize backend 'cuda': INTERNAL: no supported devices found for platform CUDA "
    "(you may need to uninstall the failing plugin package, or set JAX_PLATFORMS=cpu)",
]
SOMETHING_ELSE = [
    "RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 300000, available: 232448",
    "out of resource: shared memory, Required: 270336, Hardware limit: 232448. Reducing block "
    "sizes or `num_stages` may help.",
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`",
    "INTERNAL: something else",
    "RESOURCE_EXHAUSTED",
]


def device(*, free: int, **by_process: int) -> _DeviceMemory:
    return _DeviceMemory(
        total=140 * GIB, free=free, by_process={int(pid[1:]): n for pid, n in by_process.items()}
    )


@pytest.fixture
def devices(monkeypatch):
    """Devices as NVML tells them; a list that a test fills."""
    there: list[_DeviceMemory] = []
    monkeypatch.setattr(out_of_memory, "_memory_of_devices", lambda: iter(there))
    return there


@pytest.mark.parametrize("text", RAISED)
def test_memory_that_ran_out_is_understood(text, devices):
    """The ARM build of torch says "not enough memory"; its OOM was told as a kernel's failure."""
    assert ran_out(RuntimeError(text))


def test_every_row_has_a_text_that_was_raised_or_is_documented():
    texts = RAISED + ON_A_FULL_DEVICE
    assert all(any(row.text in text for text in texts) for row in SPELLINGS)


@pytest.mark.parametrize("text", SOMETHING_ELSE)
def test_what_is_something_else_is_not_taken_for_it(text, devices):
    devices.append(device(free=0))
    assert not ran_out(RuntimeError(text))


@pytest.mark.parametrize("text", ON_A_FULL_DEVICE)
def test_what_may_be_something_else_is_lack_of_memory_on_a_full_device_alone(text, devices):
    assert not ran_out(RuntimeError(text))
    devices.append(device(free=100 * GIB))
    assert not ran_out(RuntimeError(text))
    devices[0] = device(free=3 << 20)
    assert ran_out(RuntimeError(text))


def test_errors_that_name_themselves():
    assert ran_out(MemoryError()) and ran_out(OSError(12, "Cannot allocate memory"))
    assert not ran_out(OSError(2, "No such file or directory"))


def test_this_machines_torch_is_understood():
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 50)
    assert ran_out(raised.value)


def test_this_machines_jax_is_understood():
    jax = pytest.importorskip("jax")
    with pytest.raises((RuntimeError, MemoryError)) as raised:  # the second in JAX 0.11
        jax.numpy.zeros((1 << 40, 1 << 8), device=jax.devices("cpu")[0]).block_until_ready()
    assert ran_out(raised.value)


def test_a_gpu_that_others_fill_is_told_apart_from_one_that_is_too_small(devices):
    """Seven users on a GPU, or JAX in another process: the kernel was called too large."""
    error = RuntimeError("CUDA out of memory. Tried to allocate 8.00 GiB.")
    own = f"p{os.getpid()}"
    devices.append(device(free=0, **{own: 139 * GIB}))
    alone = outcome_of(error, subject="eager", metric="memory")
    assert alone.status == "oom"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, process_group=0) as other:
        devices[0] = device(free=0, **{own: GIB, f"p{other.pid}": 138 * GIB})
        crowded = outcome_of(error, subject="eager", metric="memory")
        other.communicate(b"\n")
    assert crowded.status == "refused"
    assert crowded.reason.startswith("other processes hold 138.0 of the 140.0 GiB of cuda:0, ")


ON_GPU = RuntimeError("CUDA out of memory. Tried to allocate 8.00 GiB.")


def test_contexts_without_work_and_processes_out_of_sight_are_not_others(devices):
    devices.append(device(free=0, p1=GIB, p4194305=138 * GIB))
    assert held_by_others(ON_GPU) is None


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), *(RuntimeError(RAISED[i]) for i in (0, 1, 9))], ids=str
)
def test_the_machines_own_memory_is_not_the_gpus(error, devices, monkeypatch):
    """A call on the CPU that runs out says nothing of a GPU, however full that is."""
    devices.append(device(free=0, p1=138 * GIB))
    monkeypatch.setattr(out_of_memory, "_is_ours", lambda pid: False)
    assert held_by_others(ON_GPU)
    assert held_by_others(RuntimeError(RAISED[8]))  # XLA's on a GPU
    assert ran_out(error) and held_by_others(error) is None
    assert outcome_of(error, subject="eager", metric="memory").status == "oom"
