"""The length at which memory runs out, from peaks whose law is known."""

import numpy as np
import pytest
from law_records import HOST, LENGTHS, record, run_json, workload

from assay.laws.machines import capacities, capacity
from assay.laws.oom import input_bytes, oom_lengths

GIB = 1 << 30
H200 = {HOST: 140.0 * GIB}
INPUTS = (32 + 2 * 8) * 128 * 2  # bytes of q, k and v for each token


def peak(s):
    """Scores in float32 and bfloat16 of 32 heads, the output, and a workspace."""
    return 32 * s * s * 6 + 32 * s * 128 * 2 + 8e6


def truth(memory, room):
    """The first length that does not fit, by trying."""
    return next(s for s in range(1, 10**6) if memory(s) > room)


def curve(value_at=peak, *, lengths=LENGTHS, metric="forward_peak_bytes", **changes):
    return [record(metric, value_at(s), workload=workload(s), **changes) for s in lengths]


def test_a_known_length_comes_back():
    (limit,) = oom_lengths(curve(), capacities=H200)
    wanted = truth(lambda s: peak(s) + INPUTS * s, 140 * GIB)
    assert limit.predicted == pytest.approx(wanted, rel=1e-3)
    assert limit.low == pytest.approx(wanted, rel=1e-3) and limit.reason is None
    assert limit.observed is None and limit.difference is None


def test_tiled_memory_runs_out_where_inputs_and_output_fill_the_device():
    (limit,) = oom_lengths(curve(lambda s: 32 * s * (128 * 2 + 4)), capacities=H200)
    assert limit.predicted == pytest.approx(140 * GIB / (INPUTS + 32 * 260), rel=1e-6)


def test_training_has_the_gradient_of_the_output_as_an_input():
    spec = workload().spec
    assert input_bytes(spec, "forward_peak_bytes") == INPUTS
    assert input_bytes(spec, "training_peak_bytes") == INPUTS + 32 * 128 * 2


def test_the_overhead_of_a_context_is_not_there_for_tensors():
    overhead = record("device_overhead_bytes", 4.0 * GIB, subject="cuda:0", workload=None)
    (without,) = oom_lengths(curve(), capacities={HOST: 136.0 * GIB})
    (limit,) = oom_lengths([*curve(), overhead], capacities=H200)
    assert limit.predicted == without.predicted and limit.capacity_bytes == 136 * GIB


def test_noise_widens_the_interval_and_it_holds_the_truth():
    rng = np.random.default_rng(1)
    noisy = curve(lambda s: peak(s) * (1 + 0.01 * rng.standard_normal()))
    (limit,) = oom_lengths(noisy, capacities=H200)
    wanted = truth(lambda s: peak(s) + INPUTS * s, 140 * GIB)
    assert limit.low < wanted < limit.high and limit.high > 1.005 * limit.predicted


def test_the_length_that_was_found_stands_beside_it():
    tried = {"stage": "limits", "unit": "tokens"}
    forward = record("oom_length", 27000.0, workload=workload(128), **tried)
    others = [
        record("oom_length", 9.0, workload=workload(128, batch=4), **tried),
        record("oom_length", 9.0, workload=workload(128), subject="sdpa", **tried),
        record("oom_length", 9.0, workload=workload(128), host="another", **tried),
    ]
    (limit,) = oom_lengths([*others, *curve(), forward], capacities=H200)
    assert limit.observed == 27000.0
    assert limit.difference == pytest.approx(limit.predicted / 27000 - 1)
    training = curve(metric="training_peak_bytes")
    assert oom_lengths([forward, *training], capacities=H200)[0].observed is None


@pytest.mark.parametrize(
    ("records", "sizes", "words"),
    [
        (curve(lengths=(512, 1024)), H200, "known at 2 lengths"),
        (curve(lambda s: 0.0), H200, "none of them 0"),
        (curve(), {}, "no run.json"),
        (curve(), {HOST: "measured on cpu"}, "measured on cpu"),
        (curve(), {"another": 1.0}, "no run.json"),
    ],
)
def test_no_prediction_without_what_it_needs(records, sizes, words):
    (limit,) = oom_lengths(records, capacities=sizes)
    assert limit.predicted is None and limit.low is None and words in limit.reason


def test_an_unknown_dtype_has_no_inputs():
    spec = {**workload().spec, "dtype": "float8"}
    assert input_bytes(spec, "forward_peak_bytes") is None
    assert input_bytes({"batch": 1}, "forward_peak_bytes") is None


def test_as_many_terms_as_lengths_give_a_length_without_an_error():
    (limit,) = oom_lengths(curve(lengths=(512, 1024, 2048)), capacities=H200)
    assert limit.predicted is not None and limit.low is None and "not known" in limit.reason


GPUS = [
    {"kind": "cpu", "index": 0, "memory_bytes": 7},
    {"kind": "cuda", "index": 0, "memory_bytes": 100},
    {"kind": "cuda", "index": 1, "memory_bytes": 200},
    {"kind": "cuda", "index": 2, "memory_bytes": None},
]


def test_the_capacity_is_that_of_the_device_measured_on():
    def on(device):
        return run_json(device=device, devices=GPUS)

    assert capacity(on("cuda:1")) == 200
    assert capacities([on("cuda:0"), on("cpu")])[HOST] == 100
    for device, words in (
        ("cpu", "not on an accelerator"),
        (None, "not named"),
        ("cuda:2", "memory of cuda:2 is not known"),
        ("cuda:3", "does not describe cuda:3"),
    ):
        assert words in capacity(on(device))
