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
    measured = probed(kernels, bound_here(name))
    assert measured["kernels"].status == "ok", measured["kernels"].reason
    assert measured["kernels"].value >= 1
    assert device.FEWEST <= len(measured["device_ms"].samples) <= kernels.CALLS
    assert measured["device_span_ms"].value >= 0.99 * measured["device_ms"].value


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
    measured = probed(kernels, bound_here(name))["kernels"]
    assert measured.value == 1, measured.source


def test_our_kernel_is_read_from_its_binary():
    measured = probed(kernels, bound_here("flash2_triton"))
    assert measured["kernel_tensor_ops"].value > 0, measured["kernel_tensor_ops"].reason
    assert measured["kernel_spills"].value is not None
    assert measured["kernel_registers"].value > 0
    assert 0 < measured["kernel_occupancy"].value <= 1
    assert measured["kernel_shared_bytes"].value > 0
