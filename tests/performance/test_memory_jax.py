"""Memory of JAX calls: the compiled program's plan, and the residuals of the gradient."""

import pytest

pytest.importorskip("jax")

from bound_calls import bound, probed

from assay.performance.probes import kernels, memory


def test_peaks_come_from_the_plan_and_add_up():
    found = probed(memory, bound("jax_xla", "b1_h2_s128_d32"))
    for metric in ("forward_peak_bytes", "training_peak_bytes"):
        told = [m.value for name, m in found.items() if name.startswith(f"{metric}.")]
        assert sum(told) == found[metric].value
        assert "memory_analysis" in found[metric].source
    scores = 2 * 128 * 128 * 4
    assert found["forward_peak_bytes"].value >= scores + 2 * 128 * 32 * 4
    assert found["training_peak_bytes"].value > found["forward_peak_bytes"].value


def test_saved_bytes_of_pallas_are_output_and_normaliser():
    found = probed(memory, bound("jax_pallas", "b2_h4_kv2_s65_d32"))
    assert found["saved_bytes"].value == 2 * 4 * 65 * (32 * 4 + 4)


def test_saved_bytes_of_plain_attention_hold_the_scores():
    """Residuals of shape M x N grow with its square; inputs are not counted."""
    small, large = (
        probed(memory, bound("jax_xla", f"b1_h2_s{n}_d32"))["saved_bytes"].value for n in (64, 128)
    )
    assert 3 < large / small < 4


def test_on_a_cpu_the_programs_instructions_are_named():
    found = probed(kernels, bound("jax_xla", "b1_h2_s64_d32"))
    assert found["kernels"].value >= 1
    assert any(word in found["kernels"].source for word in ("fusion", "dot", "custom-call"))
    assert found["device_ms"].value is None and found["device_ms"].reason
    assert found["input_copy_bytes"].value is None and "XLA" in found["input_copy_bytes"].reason
