"""Crossing lengths that are known come back; what does not cross, or was not paired, says so."""

import msgspec
import pytest
from law_records import LENGTHS, eager, flash, level, record, timed, workload

from assay.laws.crossover import crossovers


def test_a_known_crossing_comes_back_with_an_interval_that_holds_it():
    (compared,) = crossovers([*timed("eager", eager), *timed("flash", flash)])
    (crossing,) = compared.crossings
    assert (compared.subject, compared.against, compared.outcome) == ("flash", "eager", "crosses")
    assert crossing.overtakes and crossing.length == pytest.approx(1100, rel=0.02)
    assert crossing.low <= 1100 <= crossing.high and crossing.high / crossing.low < 1.1
    assert compared.words.startswith("overtakes at 1,")


def test_the_other_way_round_it_falls_behind():
    (compared,) = crossovers([*timed("eager", eager), *timed("flash", flash)], against="flash")
    (crossing,) = compared.crossings
    assert compared.subject == "eager" and not crossing.overtakes
    assert crossing.length == pytest.approx(1100, rel=0.02) and "falls behind" in compared.words


@pytest.mark.parametrize(("factor", "outcome"), [(0.5, "faster"), (2.0, "slower")])
def test_no_crossing(factor, outcome):
    other = timed("flash", lambda s: factor * eager(s))
    (compared,) = crossovers([*timed("eager", eager), *other])
    assert compared.outcome == outcome and compared.crossings == ()
    assert compared.words == f"{outcome} at every length measured"
    ratio, low, high = compared.ratios[1024]
    assert low <= ratio <= high and ratio == pytest.approx(factor, rel=0.05)


def test_an_equal_subject_shows_no_real_difference():
    (compared,) = crossovers(level())
    assert compared.outcome == "no real difference" and compared.crossings == ()
    assert compared.words == "no real difference at every length measured"


def test_equal_at_first_and_faster_later_is_said():
    long = [*timed("eager", eager, lengths=(512,)), *timed("flash", lambda s: 0.1, lengths=(512,))]
    (compared,) = crossovers([*level((256,)), *long])
    assert compared.outcome == "faster" and "but 256, where no difference is real" in compared.words


def test_more_than_one_crossing_is_listed():
    bumpy = timed("flash", lambda s: eager(s) * (0.5 if 512 <= s <= 2048 else 2.0))
    (compared,) = crossovers([*timed("eager", eager), *bumpy])
    assert [crossing.overtakes for crossing in compared.crossings] == [True, False]
    assert compared.crossings[0].length == pytest.approx(2**8.5, rel=0.05)
    assert "crosses more than once: overtakes at" in compared.words


def test_one_length_is_said_to_be_the_only_one():
    short = {"lengths": (2048,)}
    (compared,) = crossovers([*timed("eager", eager, **short), *timed("flash", flash, **short)])
    assert compared.words == "faster at 2,048 tokens, the only length measured"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alone": True}, "ran alone"),
        ({"rounds": 1}, "flash has 1 round; a 95 % interval takes 6"),
        ({"rounds": 5}, "flash has 5 rounds; a 95 % interval takes 6"),
        ({"cell": "another"}, "no record of"),
    ],
)
def test_what_was_not_paired_is_not_compared(changes, words):
    (compared,) = crossovers([*timed("eager", eager), *timed("flash", flash, **changes)])
    assert compared.outcome == "not compared" and compared.ratios == {}
    assert words in compared.words and set(compared.unpaired) == set(LENGTHS)


def test_a_sample_of_zero_is_not_divided_by():
    zero = record(samples=[0.0, *[1.0] * 9], workload=workload(256))
    other = record(samples=[1.0] * 10, subject="flash", workload=workload(256))
    (compared,) = crossovers([zero, other])
    assert "sample of zero" in compared.words


def test_an_oom_row_leaves_its_length_out_with_its_reason():
    oom = record("latency", None, status="oom", reason="no room", workload=workload(16384))
    long = timed("flash", flash, lengths=(*LENGTHS, 16384))
    (compared,) = crossovers([*timed("eager", eager), oom, *long])
    assert compared.unpaired == {16384: "eager is oom: no room"}
    assert compared.outcome == "crosses" and 16384 not in compared.ratios


def test_an_oom_of_another_probe_leaves_the_times_as_they_are():
    oom = record("memory", None, status="oom", reason="no room", workload=workload(8192))
    (compared,) = crossovers([*timed("eager", eager), oom, *timed("flash", flash)])
    assert compared.unpaired == {} and set(compared.ratios) == set(LENGTHS)


def test_layers_that_ended_without_a_level_belong_to_the_layers():
    layers = {"stage": "layers", "level": "layer"}
    oom = record("latency", None, status="oom", reason="no room", workload=workload(256))
    oom = msgspec.structs.replace(oom, stage="layers", level=None, subject="gemma:xla")
    long = {"lengths": (512, 1024), **layers}
    records = [*timed("gemma:cudnn", flash, **{**long, "lengths": (256, 512, 1024)}), oom]
    (compared,) = crossovers([*records, *timed("gemma:xla", eager, **long)])
    assert compared.setting.level == "layer"
    assert compared.unpaired == {256: "gemma:xla is oom: no room"}


def test_hosts_are_never_mixed():
    assert crossovers([*timed("eager", eager), *timed("flash", flash, host="another")]) == []


def test_a_peer_that_is_not_there_gives_nothing():
    assert crossovers([*timed("eager", eager), *timed("flash", flash)], against="sdpa") == []
    assert crossovers([]) == []
