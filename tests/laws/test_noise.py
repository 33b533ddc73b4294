"""Real differences, the error rate of that rule, and slowdowns since an earlier run."""

import numpy as np
import pytest
from law_records import record, workload

from assay.laws.noise import AA, PLANTED, difference, noise_of
from assay.laws.quantiles import upper_bound
from assay.laws.regression import changes, lost_times
from assay.records.check_answer import Answer
from assay.reports.tables.noise import tables
from assay.verbs._regression import Since

ROUNDS = 20


def test_a_difference_is_real_beyond_the_margin_only():
    steady = np.full(30, 1.0)
    assert difference(steady).verdict is None
    assert difference(steady * 1.009).verdict is None
    assert difference(steady * 1.02).verdict == "slower"
    assert difference(steady / 1.02).verdict == "faster"


def test_noise_alone_is_hardly_ever_called_real():
    drawn = np.random.default_rng(3)
    ratios = np.exp(drawn.normal(0, 0.03, size=(400, 30)))
    assert sum(difference(each).verdict is not None for each in ratios) <= 4


def process(number: int, *, base: float, slowdown: float, comparisons: int = 20):
    """Records of one process of the stage noise."""
    drawn = np.random.default_rng(number)
    shared = {"stage": "noise", "cell": f"sdpa/{number}", "workload": workload(), "subject": "sdpa"}
    samples = {}
    for names, factor, count in ((AA, 1.0, comparisons), (PLANTED, 1 + slowdown, comparisons // 2)):
        for name, times in zip(names, (1.0, factor), strict=True):
            noisy = base * times * np.exp(drawn.normal(0, 0.005, count * ROUNDS))
            samples[name] = noisy.tolist()
    records = [record(name, samples=taken, **shared) for name, taken in samples.items()]
    records.append(record("noise_rounds", ROUNDS, unit="count", **shared))
    return [*records, record("planted_share", slowdown, unit="ratio", **shared)]


def test_what_processes_say_together():
    records = [*process(1, base=1.0, slowdown=0.05), *process(2, base=1.02, slowdown=0.05)]
    (noise,) = noise_of(records)
    assert (noise.comparisons, noise.planted, noise.processes) == (40, 20, 2)
    assert noise.alarms == 0 and noise.detected == 20
    assert 0.01 < noise.smallest_effect < 0.03
    assert noise.between_processes == pytest.approx(np.log(1.02) / np.sqrt(2), rel=0.2)
    assert noise.alarm_bound == pytest.approx(upper_bound(0, 40))


def test_too_few_comparisons_cannot_judge():
    """`--aa` with ten comparisons gave a rate of false alarms of 0 %."""
    two, three = (
        [r for n in range(k) for r in process(n, base=1.0, slowdown=0.05)] for k in (2, 3)
    )
    (few,) = tables("noise", two)
    (row,) = few.rows
    unknown = [row[few.columns.index(c)] for c in ("rate below", "rate above", "smallest effect")]
    assert {entry.text for entry in unknown} == {"—"}
    assert all(entry.hint.startswith("cannot judge: 40 comparisons") for entry in unknown)
    (enough,) = tables("noise", three)
    assert enough.rows[0][enough.columns.index("rate below")].text == "4.87%"


def test_half_of_a_process_says_nothing():
    assert noise_of(process(1, base=1.0, slowdown=0.05)[:3]) == []


def timed(subject: str, base: float, seed: int):
    drawn = np.random.default_rng(seed)
    samples = (base * np.exp(drawn.normal(0, 0.005, 30))).tolist()
    return record(subject=subject, samples=samples, workload=workload())


@pytest.fixture
def quiet():
    return [*process(1, base=1.0, slowdown=0.05), *process(2, base=1.0, slowdown=0.05)]


def test_a_slowdown_is_found(quiet):
    (change,) = changes([timed("sdpa", 1.10, 1), *quiet], [timed("sdpa", 1.0, 2)])
    assert change.slower and change.ratio == pytest.approx(1.10, abs=0.01)


def test_what_is_within_the_noise_is_not(quiet):
    (change,) = changes([timed("sdpa", 1.005, 1), *quiet], [timed("sdpa", 1.0, 2)])
    assert not change.slower


def test_a_machine_that_is_slower_as_a_whole_is_no_slowdown(quiet):
    now = [timed("sdpa", 1.2, 1), timed("eager", 6.0, 2), *quiet]
    then = [timed("sdpa", 1.0, 3), timed("eager", 5.0, 4)]
    change = next(each for each in changes(now, then) if each.subject == "sdpa")
    assert change.control == "eager" and not change.slower


def test_another_that_became_faster_is_no_slowdown(quiet):
    now = [timed("sdpa", 1.0, 1), timed("eager", 2.0, 2), *quiet]
    then = [timed("sdpa", 1.0, 3), timed("eager", 5.0, 4)]
    change = next(each for each in changes(now, then) if each.subject == "sdpa")
    assert change.ratio > 2 and not change.slower


def test_without_a_measure_of_noise_nothing_is_called_slower():
    (change,) = changes([timed("sdpa", 2.0, 1)], [timed("sdpa", 1.0, 2)])
    assert change.threshold is None and not change.slower


def against(compared, own="PASS", *, lost=()):
    since = Since(run="RUN", compared=compared, lost=lost)
    return since.answer(Answer(word=own, lines=(own,)))


def test_the_gate_passes_nothing_that_it_did_not_judge(quiet):
    """`--against` said PASS where no threshold was known, where the run itself failed, and where a
    time had run out of memory."""
    then, slow = [timed("sdpa", 1.0, 2), timed("eager", 1.0, 3)], timed("sdpa", 2.0, 1)
    assert against(changes([slow], then)).startswith("INCOMPLETE  none of 1 time could be judged")
    same = [timed("sdpa", 1.0, 1), timed("eager", 1.0, 4), *quiet]
    assert against(changes(same, then)).startswith("PASS  none of 2 times is slower")
    assert "1 not judged: the noise was not measured" in against(changes(same, then))
    assert against(changes(same, then), "FAIL").startswith("FAIL  none of 2 times is slower")
    shared = {"subject": "eager", "workload": workload(), "reason": "8 GiB are too few"}
    oom = record("latency", status="oom", **shared)
    other = record("memory", status="oom", **shared)
    lost = lost_times([same[0], oom, *quiet], then)
    answer = against(changes([same[0], *quiet], then), lost=lost)
    assert answer.startswith("FAIL  1 time of RUN lost, such as eager") and "8 GiB" in answer
    (gone,) = lost_times([same[0], other], then)
    assert gone.reason is None  # nobody asked for it
