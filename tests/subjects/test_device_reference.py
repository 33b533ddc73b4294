"""The reference on a device is NumPy's, and one that is not does not count."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from assay.attention import reference
from assay.captures.inputs import make
from assay.subjects import device_reference, sampling
from assay.workloads.spec import parse
from tests.subjects.test_sampling import NAMES, PLAIN


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_that_of_the_reference(name):
    workload = make(parse(name, defaults=PLAIN))
    right = reference.attention(
        *(workload.q, workload.k, workload.v),
        causal=workload.spec.causal,
        scale=workload.spec.scale,
        visible=workload.visible,
    )
    group = workload.spec.heads // workload.spec.kv_heads
    for batch in range(workload.spec.batch):
        for kv_head in range(workload.spec.kv_heads):
            own = slice(kv_head * group, (kv_head + 1) * group)
            actual = device_reference.over_all_keys(workload, batch, kv_head, "cpu")
            np.testing.assert_allclose(actual.out, right.out[batch, own], atol=1e-13)
            np.testing.assert_allclose(actual.lse, right.lse[batch, own], atol=1e-13)


def test_a_device_that_is_wrong_is_not_believed(monkeypatch, capsys):
    workload = make(parse(NAMES[0], defaults=PLAIN))
    right = sampling.sample(workload)

    def all_visible(*_):
        return torch.zeros((), dtype=torch.bool)

    monkeypatch.setattr(device_reference, "_hidden", all_visible)
    monkeypatch.setattr(device_reference, "can_run", lambda device: True)
    with pytest.raises(device_reference.DeviceDisagrees):
        device_reference.over_all_keys(workload, 0, 0, "cpu")
    some = sampling.sample(workload, device="cpu")
    assert "the reference is computed on the CPU: DeviceDisagrees" in capsys.readouterr().out
    np.testing.assert_array_equal(some.result.dk, right.result.dk)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_sample_is_the_same():
    workload = make(parse("b1_h2_kv1_q300_k700_d64_causal_bfloat16", defaults=PLAIN))
    here, there = sampling.sample(workload), sampling.sample(workload, device="cuda:0")
    for tensor in ("out", "lse", "dq", "dk", "dv"):
        np.testing.assert_allclose(
            getattr(there.result, tensor), getattr(here.result, tensor), rtol=1e-9, atol=1e-12
        )
