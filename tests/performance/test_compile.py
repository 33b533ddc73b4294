"""Time to compile, measured where nothing was compiled before."""

import pytest

pytest.importorskip("torch")

from bound_calls import bound, probed, written

from assay.performance.probes import compile as probe


@pytest.mark.slow
def test_what_compiles_pays_for_it_each_time(tmp_path):
    """Also after this process and another have compiled it."""
    body = "return compiled(q, k, v, causal=causal, scale=scale)"
    head = "compiled = torch.compile(eager.attention, backend='inductor', dynamic=False)"
    call = bound(written(tmp_path, "compiles", body, head=head), "b1_h1_s32_d16")
    call()
    for _ in range(2):
        measured = probed(probe, call)["compile_ms"]
        assert measured.reason is None and measured.value > 50.0
        assert "empty compile caches" in measured.source


def test_a_program_of_xla_is_compiled():
    pytest.importorskip("jax")
    assert probed(probe, bound("jax_xla", "b1_h1_s32_d16"))["compile_ms"].value > 0.0


def test_nothing_is_compiled_of_plain_operators():
    measured = probed(probe, bound("sdpa", "b1_h1_s32_d16"))["compile_ms"]
    assert measured.value is None and "nothing was compiled" in measured.reason
