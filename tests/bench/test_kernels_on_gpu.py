"""Kernels as the profiler sees them on a GPU: times against events, names against declarations."""

from statistics import median

import pytest

pytest.importorskip("torch")

import torch
from bound_calls import bound, probed

from assay import plugins
from assay.bench.call import Unsupported
from assay.bench.probes import kernels

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
WORKLOAD = "b4_h16_s4096_d128_bfloat16"
PINNED = [
    name
    for name, plugin in plugins.listing("sequence").items()
    if "cuda" in plugin.literals["KERNELS"]
]


def bound_here(name):
    plugin = plugins.listing("sequence")[name]
    if plugin.missing:
        pytest.skip(f"{', '.join(plugin.missing)} is not installed")
    try:
        return bound(name, WORKLOAD, device="cuda:0")
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", PINNED)
def test_the_declared_kernel_ran(name):
    found = probed(kernels, bound_here(name))
    assert found["kernels"].status == "ok", found["kernels"].reason
    assert found["kernels"].value >= 1
    assert len(found["device_ms"].samples) == kernels.CALLS
    assert found["device_span_ms"].value >= 0.99 * found["device_ms"].value


@pytest.mark.parametrize("name", ["sdpa_cudnn", "sdpa_flash", "sdpa_efficient", "flash2_triton"])
def test_profiler_and_events_agree(name):
    """One long kernel: what events measure around it is what the profiler says it took."""
    call = bound_here(name)
    device_ms = probed(kernels, call)["device_ms"].value
    flush = plugins.load(plugins.find("clocks", "torch")).flusher(call.device)
    times = []
    for _ in range(7):
        flush()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    assert median(times) == pytest.approx(device_ms, rel=0.05)


def test_our_kernel_is_read_from_its_binary():
    found = probed(kernels, bound_here("flash2_triton"))
    assert found["kernel_tensor_ops"].value > 0, found["kernel_tensor_ops"].reason
    assert found["kernel_spills"].value is not None
    assert found["kernel_registers"].value > 0
    assert 0 < found["kernel_occupancy"].value <= 1
    assert found["kernel_shared_bytes"].value > 0
