"""Memory of JAX calls: the compiled program's plan, and the residuals of the gradient."""

import pytest

pytest.importorskip("jax")

from bound_calls import bound, probed

from assay.performance.probes import kernels, memory


def test_peaks_come_from_the_plan_and_add_up():
    results = probed(memory, bound("jax_xla", "b1_h2_s128_d32"))
    for metric in ("forward_peak_bytes", "training_peak_bytes"):
        explained = [m.value for name, m in results.items() if name.startswith(f"{metric}.")]
        assert sum(explained) == results[metric].value
        assert "memory_analysis" in results[metric].source
    scores = 2 * 128 * 128 * 4
    assert results["forward_peak_bytes"].value >= scores + 2 * 128 * 32 * 4
    assert results["training_peak_bytes"].value > results["forward_peak_bytes"].value


def test_saved_bytes_of_pallas_are_output_and_normaliser():
    results = probed(memory, bound("jax_pallas", "b2_h4_kv2_s65_d32"))
    assert results["saved_bytes"].value == 2 * 4 * 65 * (32 * 4 + 4)


def test_saved_bytes_of_plain_attention_hold_the_scores():
    """Residuals of shape M x N grow with its square; inputs are not counted."""
    small, large = (
        probed(memory, bound("jax_xla", f"b1_h2_s{n}_d32"))["saved_bytes"].value for n in (64, 128)
    )
    assert 3 < large / small < 4


def test_on_a_cpu_the_programs_instructions_are_named():
    results = probed(kernels, bound("jax_xla", "b1_h2_s64_d32"))
    assert results["kernels"].value >= 1
    assert any(word in results["kernels"].source for word in ("fusion", "dot", "custom-call"))
    assert results["device_ms"].value is None and results["device_ms"].reason
    assert results["input_copy_bytes"].value is None and "XLA" in results["input_copy_bytes"].reason
