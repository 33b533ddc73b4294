"""Kernels as the profiler sees them on a GPU: times against events, names against declarations."""

from statistics import median

import pytest

pytest.importorskip("torch")

import torch
from bound_calls import bound, probed

from assay import plugins
from assay.performance.probes import kernels
from assay.performance.profile import device
from assay.subjects.outcome import Unsupported

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
    assert device.FEWEST <= len(found["device_ms"].samples) <= kernels.CALLS
    assert found["device_span_ms"].value >= 0.99 * found["device_ms"].value


@pytest.mark.parametrize("name", ["sdpa_cudnn", "sdpa_flash", "sdpa_efficient", "flash2_triton"])
def test_profiler_and_events_agree(name):
    """A long kernel: what the clock says, launches hidden, is what the profiler says it took."""
    call = bound_here(name)
    ran = probed(kernels, call)
    assert ran["device_ms"].value > 0.1
    clocks = plugins.load(plugins.find("frameworks", "torch"))
    flush, clock = clocks.flusher(call.device), clocks.clock(call.device)
    times = []
    for _ in range(12):
        flush()
        with torch.no_grad():
            times.append(clock.time(call)[0])
    # The first calls tell the clock how long a launch takes.
    assert abs(median(times[5:]) - ran["device_ms"].value) < _allowed(ran)


def _allowed(ran):
    """2 %, and for each kernel what the device needs between it and its neighbour."""
    return 0.02 * ran["device_ms"].value + 0.003 * (1 + ran["kernels"].value)


@pytest.mark.parametrize("name", ["jax_cudnn", "jax_pallas"])
def test_waiting_for_a_call_is_no_kernel_of_it(name):
    """JAX is waited for by sending something small after; that was counted as a second kernel."""
    found = probed(kernels, bound_here(name))["kernels"]
    assert found.value == 1, found.source


def test_our_kernel_is_read_from_its_binary():
    found = probed(kernels, bound_here("flash2_triton"))
    assert found["kernel_tensor_ops"].value > 0, found["kernel_tensor_ops"].reason
    assert found["kernel_spills"].value is not None
    assert found["kernel_registers"].value > 0
    assert 0 < found["kernel_occupancy"].value <= 1
    assert found["kernel_shared_bytes"].value > 0
