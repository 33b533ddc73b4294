"""Readings of GPUs are read as what they are, over time, with idle phases apart."""

import pytest

from assay.trackers.gpu_readings import known_as
from assay.trackers.gpu_use import gpu_use, time_weighted
from assay.trackers.run import TrackerRun, row


def sampled(*samples):
    rows = tuple(row(values, at=second) for second, values in samples)
    return gpu_use(TrackerRun(source="s", place="p", name="n", system=rows))


@pytest.mark.parametrize(
    "name, meaning",
    [
        ("system.gpu.3.gpu", ("3", "busy", 1.0)),
        ("system.gpu.0.memory", ("0", "bus_busy", 1.0)),
        ("system.gpu.0.memoryAllocated", ("0", "held", 1.0)),
        ("system.gpu.process.0.gpu", None),
        ("gpu/1/memory_utilization", ("1", "bus_busy", 1.0)),
        ("gpu/1/memory_usage", ("1", "held", 100.0)),
        ("device/power_w", ("device", "power", 1.0)),
        ("power_w", None),
    ],
)
def test_capacity_is_not_taken_for_traffic(name, meaning):
    assert known_as(name) == meaning


def test_means_are_over_time_and_not_over_samples():
    mean, paused = time_weighted([(0, 100), (1, 100), (2, 100), (6, 0), (10, 0)])
    assert mean == pytest.approx((2 * 100 + 4 * 50) / 10) and paused == 0
    mean, paused = time_weighted([(0, 100), (1, 100), (2, 100), (100, 0), (101, 0)])
    assert mean == pytest.approx(200 / 3) and paused == 98
    assert time_weighted([(5, 7.0)]) == (7.0, 0.0)
    assert time_weighted([(5, 7.0), (5, 9.0)]) == (8.0, 0.0)


def test_idle_phases_at_both_ends_are_apart():
    busy = [0, 0, 0, 90, 0, 90, 90, 0]
    (gpu,) = sampled(*((10 * i, {"system.gpu.0.gpu": b}) for i, b in enumerate(busy))).gpus
    assert (gpu.idle_before_s, gpu.idle_after_s, gpu.seconds) == (30, 10, 30)
    assert gpu.means["busy"] == pytest.approx((45 + 45 + 90) / 3)


def test_a_gpu_that_never_worked_has_its_mean_over_all():
    (gpu,) = sampled(*((i, {"system.gpu.0.gpu": 1.0}) for i in range(4))).gpus
    assert gpu.is_idle and gpu.means["busy"] == 1.0 and gpu.seconds == 3


def test_without_the_share_of_time_with_a_kernel_idle_is_unknown():
    (gpu,) = sampled((0, {"device/power_w": 100.0}), (1, {"device/power_w": 300.0})).gpus
    assert gpu.idle_before_s is None and gpu.means == {"power": 200.0}


def test_power_is_held_against_its_limit_where_that_is_known():
    values = {"system.gpu.0.powerWatts": 350.0, "system.gpu.0.enforcedPowerLimitWatts": 700.0}
    (gpu,) = sampled((0, values), (1, values)).gpus
    assert gpu.means["of_limit"] == pytest.approx(50.0)


def test_a_gpu_that_begins_late_is_unevenly_loaded():
    samples = [
        (second, {"system.gpu.0.gpu": 90.0, "system.gpu.1.gpu": 90.0 if second >= 50 else 0.0})
        for second in range(0, 101, 10)
    ]
    use = sampled(*samples)
    assert [gpu.means["busy"] for gpu in use.gpus] == [90.0, 90.0]
    assert use.balance["busy"] == pytest.approx(100 * (90 - 49.5) / (90 + 49.5), rel=0.01)


def test_samples_without_a_time_are_counted():
    assert sampled((None, {"system.gpu.0.gpu": 1.0}), (0, {"system.gpu.0.gpu": 50.0})).untimed == 1
