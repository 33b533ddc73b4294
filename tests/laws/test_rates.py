"""Rates, shares of measured ceilings, and the refusal to give either where it is not known."""

import pytest
from law_records import ceilings, record, workload

from assay.laws import rates as law


def rates(records):
    return list(law.rates(records).values())


SAMPLES = [1.9, 2.0, 7.0]  # a median of 2 ms


def cell(*, metric="latency_ms", samples=SAMPLES, flops=8e11, traffic=4e8, **changes):
    """A timed record with the work of its forward and backward pass."""
    return [
        record(metric, samples=samples, **changes),
        record("forward_flops", flops, unit="FLOP", **changes),
        record("backward_flops", 2.5 * flops, unit="FLOP", **changes),
        record("forward_bytes", traffic, **changes),
        record("backward_bytes", 2 * traffic, **changes),
    ]


def test_a_rate_is_work_over_the_median():
    (rate,) = rates([*cell(), *ceilings()])
    assert rate.tokens_per_s == pytest.approx(1024 / 2e-3)
    assert rate.batches_per_s == pytest.approx(1 / 2e-3)
    assert rate.tflops == pytest.approx(400.0) and rate.compute_share == pytest.approx(0.5)
    assert rate.gbps == pytest.approx(200.0) and rate.memory_share == pytest.approx(0.05)
    assert rate.intensity == pytest.approx(2000.0)
    assert (rate.bound, rate.reason, rate.suspect) == ("compute-bound", None, None)


@pytest.mark.parametrize(
    ("metric", "tflops", "gbps"),
    [
        ("graph_ms", 400.0, 200.0),
        ("device_ms", 400.0, 200.0),
        ("backward_ms", 1000.0, 400.0),
        ("training_ms", 1400.0, 600.0),
    ],
)
def test_each_metric_counts_the_passes_it_timed(metric, tflops, gbps):
    (rate,) = rates(cell(metric=metric))
    assert rate.tflops == pytest.approx(tflops) and rate.gbps == pytest.approx(gbps)


def test_below_the_ridge_memory_bounds():
    (rate,) = rates([*cell(flops=1e9), *ceilings()])
    assert rate.intensity == pytest.approx(2.5) and rate.bound == "memory-bound"


def test_work_of_another_cell_or_subject_is_not_used():
    timed = cell()[:1]
    others = [*cell(subject="sdpa")[1:], *cell(cell="another")[1:], *cell(run="later")[1:]]
    (rate,) = rates([*timed, *others, *ceilings()])
    assert rate.tflops is None and rate.gbps is None and rate.bound is None
    assert rate.tokens_per_s is not None
    assert "no forward_flops in this cell" in rate.reason


def test_an_unknown_amount_of_work_passes_its_reason_on():
    timed, _, *rest = cell()
    unknown = record("forward_flops", None, reason="no formula for this layer", unit="FLOP")
    (rate,) = rates([timed, unknown, *rest, *ceilings()])
    assert rate.tflops is None and rate.compute_share is None and rate.gbps is not None
    assert rate.reason == "forward_flops: no formula for this layer"


@pytest.mark.parametrize(
    ("device", "dtype"), [("cuda:0", "float32"), ("cpu", "bfloat16"), ("cpu", "float16")]
)
def test_a_ceiling_of_another_dtype_is_no_ceiling(device, dtype):
    (rate,) = rates([*cell(workload=workload(dtype=dtype)), *ceilings(device)])
    assert rate.tflops is not None and rate.memory_share is not None
    assert rate.compute_share is None and rate.bound is None
    assert f"not for {dtype}" in rate.reason


def test_float32_on_the_cpu_has_a_ceiling():
    (rate,) = rates([*cell(workload=workload(dtype="float32")), *ceilings("cpu")])
    assert rate.compute_share == pytest.approx(0.5) and rate.reason is None


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ([], "add host to STAGES"),
        (ceilings(host="another"), "add host to STAGES"),
        (ceilings(run="another"), "add host to STAGES"),
        ([*ceilings("cuda:0"), *ceilings("cuda:1")], "several devices (cuda:0, cuda:1)"),
        (
            [
                record(
                    "matmul_rate", None, stage="host", workload=None, status="failed", reason="hot"
                )
            ],
            "no matmul_rate of this machine: hot",
        ),
    ],
)
def test_without_a_ceiling_of_its_machine_there_is_no_share(host, words):
    (rate,) = rates([*cell(), *host])
    assert rate.compute_share is None and rate.memory_share is None and rate.bound is None
    assert rate.tflops is not None and words in rate.reason


def test_faster_than_the_machine_is_suspect():
    (rate,) = rates([*cell(samples=[0.9]), *ceilings()])
    assert "1.11 times what this machine can compute" in rate.suspect
    (rate,) = rates([*cell(flops=1e6, traffic=1e10), *ceilings()])
    assert "1.25 times what this machine can read" in rate.suspect
    (rate,) = rates([*cell(samples=[0.98]), *ceilings()])
    assert rate.compute_share > 1 and rate.suspect is None


def test_outcomes_and_records_without_samples_have_no_rate():
    oom = record("latency+memory", None, status="oom", reason="no room")
    slow = record("latency_ms", 2.0, samples=[2.0], status="failed", reason="wrong")
    assert rates([oom, slow, record("latency_ms", 2.0), record("warmup_ms", samples=[2.0])]) == []


def test_a_time_of_zero_is_not_an_infinite_rate():
    (rate,) = rates([*cell(samples=[0.0]), *ceilings()])
    assert rate.tflops is None and rate.tokens_per_s is None
    assert "elapsed time is zero" in rate.reason
