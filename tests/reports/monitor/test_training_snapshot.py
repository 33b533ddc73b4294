"""Snapshots of runs that train: states, differences, times that are left, and what is unknown."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from watched_records import START, WrittenRun, record, write_run

from assay.errors import BadInput
from assay.records.run import open_run, save
from assay.records.schema import CELL_PROGRESS, Session
from assay.reports.monitor import watched_run
from assay.reports.monitor.snapshot import Snapshot
from assay.reports.monitor.watched_run import WatchedRun, find_run


@pytest.fixture
def run(tmp_path):
    written = write_run(tmp_path / "tiny" / "20250101T000000.000Z-aaaa")
    with written.stack:
        yield written


@pytest.fixture
def clock(monkeypatch):
    """Sets the time at which a snapshot is taken, in seconds after the run's start."""

    def set_to(seconds: float) -> None:
        class Clock:
            @staticmethod
            def now(_zone):
                return START + timedelta(seconds=seconds)

        monkeypatch.setattr(watched_run, "datetime", Clock)

    set_to(100.0)
    return set_to


def look(run: WrittenRun) -> Snapshot:
    return WatchedRun(folder=run.folder).look()


def row(snapshot: Snapshot, cell: str):
    [matching] = [r for r in snapshot.cells if f"{r.arm}/s{r.seed}" == cell]
    return matching


def test_a_run_in_the_middle(run, clock):
    """GPT2/s0 has ended after 8 s, GPT2_MLA/s0 made a step in 0.1 s and is 0.5 s after its last."""
    run.hold()
    run.append("models", record("family", "gate", 1.0), record("family", "gate", 1.0))
    run.report("GPT2/s0", 50, 5.0, val_loss=4.0)
    run.report("GPT2/s0", 100, 10.0, val_loss=3.0)
    run.end("GPT2/s0", 11.0)
    run.report("GPT2_MLA/s0", 10, 20.0)
    run.report("GPT2_MLA/s0", 30, 22.0)
    run.report("GPT2_MLA/s0", 50, 24.0, val_loss=4.25)
    clock(24.5)
    snapshot = look(run)
    assert snapshot.state == "running" and snapshot.elapsed_s == 24.5
    states = {f"{r.arm}/s{r.seed}": r.state for r in snapshot.cells}
    assert list(states.values()) == ["ended", "running", "waiting", "waiting"]
    here = row(snapshot, "GPT2_MLA/s0")
    assert (here.step, here.steps, here.train_loss, here.val_loss) == (50, 100, 4.5, 4.25)
    assert (here.difference, here.difference_step) == (0.25, 50)
    assert row(snapshot, "GPT2/s0").difference is None, "the baseline is not held to itself"
    assert here.remaining.seconds == pytest.approx(50 * 0.1 - 0.5)
    assert here.remaining.basis == "the last 2 reports, 0.1000 s a step"
    assert (here.next_evaluation, here.next_save) == (60, 100)
    assert snapshot.remaining.seconds == pytest.approx(4.5 + 2 * 8.0)
    assert snapshot.remaining.basis.endswith("1 cell done, 8 s each")
    assert snapshot.at_work == ["GPT2_MLA/s0"]
    assert snapshot.next_cells == ["GPT2/s1", "GPT2_MLA/s1"]
    assert [(c.name, c.points) for c in snapshot.validation] == [
        ("GPT2, 1 seed", [(50, 4.0), (100, 3.0)]), ("GPT2_MLA, 1 seed", [(50, 4.25)]),
    ]  # fmt: skip
    assert snapshot.training.points == [(10, 4.9), (30, 4.7), (50, 4.5)]


def test_a_curve_is_the_mean_over_the_seeds_that_came_as_far(run):
    for seed, losses in (("0", (4.0, 3.0)), ("1", (5.0, 4.0)), ("2", (9.0,))):
        for step, loss in zip((50, 100), losses, strict=False):
            run.report(f"GPT2/s{seed}", step, step / 10, val_loss=loss)
    run.report("B/s0", 50, 1.0, val_loss=1.0)
    curve = look(run).validation[0]
    assert (curve.name, curve.points) == ("GPT2, mean of 2 seeds", [(50, 4.5), (100, 3.5)])


def test_a_single_arm_has_a_curve_for_each_seed(run):
    for seed in (0, 1):
        run.report(f"GPT2/s{seed}", 50, 1.0, val_loss=4.0 + seed)
    assert [c.name for c in look(run).validation] == ["GPT2 seed 0", "GPT2 seed 1"]


def test_a_first_report_is_rated_by_its_tokens(run, clock):
    run.hold()
    run.report("GPT2/s0", 10, 100.0, tokens_per_s=128.0)
    here = row(look(run), "GPT2/s0")
    assert here.remaining.seconds == pytest.approx(90 * 64 / 128)
    assert "without evaluation" in here.remaining.basis


def test_what_is_not_known_is_not_estimated(run, clock):
    run.hold()
    run.report("GPT2/s0", 10, 1.0)
    run.report("GPT2/s0", 20, 2.0)
    run.configure(TRAIN_STEPS="")
    snapshot = look(run)
    assert snapshot.remaining.seconds is None and snapshot.remaining.basis
    assert row(snapshot, "GPT2/s0").remaining.basis == "run.json does not tell the number of steps"
    assert row(snapshot, "GPT2/s0").next_save is None


def test_time_that_is_left_ends_with_the_limit_on_time(run, clock):
    run.hold()
    run.configure(TRAIN_MOST_SECONDS="3")
    run.report("GPT2/s0", 10, 2.0)
    run.report("GPT2/s0", 20, 4.0)  # 2 s of training
    clock(4.0)
    assert row(look(run), "GPT2/s0").remaining.seconds == pytest.approx(1.0)


def test_reports_of_an_earlier_session_make_no_rate(run, clock):
    """A day between two sessions is no day for a step."""
    run.hold()
    carried = [
        record("GPT2/s0", "train_loss", 4.0, -86400.0 + s, data={"step": s}, attempt=2)
        for s in (10, 20)
    ]
    run.append("train", *carried, record("GPT2/s0", CELL_PROGRESS, 2.0, attempt=2))
    run.append("train", record("GPT2/s0", "train_loss", 4.0, 5.0, data={"step": 30}, attempt=2))
    run.append("train", record("GPT2/s0", "train_loss", 3.5, 6.0, data={"step": 40}, attempt=2))
    clock(6.0)
    assert row(look(run), "GPT2/s0").remaining.seconds == pytest.approx(60 * 0.1)


def test_a_later_attempt_supersedes(run):
    run.append("train", record("GPT2/s0", "train_loss", 9.0, data={"step": 90}))
    run.append("train", record("GPT2/s0", "train_loss", 5.0, data={"step": 10}, attempt=2))
    here = row(look(run), "GPT2/s0")
    assert (here.step, here.train_loss) == (10, 5.0)


def test_states_of_a_run_that_nobody_runs(run):
    run.report("GPT2/s0", 10, 1.0)
    interrupted = look(run)
    assert interrupted.state == "interrupted" and "assay study resume" in interrupted.state_reason
    assert row(interrupted, "GPT2/s0").state == "interrupted" and not interrupted.next_cells
    run.done("train", "failed", "1 of 4 cells failed, the first is GPT2/s0")
    failed = look(run)
    assert (failed.state, failed.state_reason) == (
        "failed", "1 of 4 cells failed, the first is GPT2/s0"
    )  # fmt: skip
    run.done("train")
    assert look(run).state == "ended"


def test_failures_have_their_reason_once(run):
    bad = {"status": "failed", "reason": "the loss is not finite"}
    run.append(
        "train",
        record("GPT2/s0", "final_val_loss", None, **bad),
        record("GPT2/s0", "cell_seconds", 2.0, status="failed", reason="GPT2: the loss is not"),
    )
    run.append("train", record("GPT2_MLA/s0", "cell_seconds", 2.0, status="oom", reason="no room"))
    snapshot = look(run)
    assert [(f.arm, f.metric, f.status, f.reason) for f in snapshot.failures] == [
        ("GPT2", "final_val_loss", "failed", "the loss is not finite"),
        ("GPT2_MLA", "cell_seconds", "oom", "no room"),
    ]
    assert (
        row(snapshot, "GPT2/s0").state == "failed" and row(snapshot, "GPT2_MLA/s0").state == "oom"
    )


def test_a_failed_cell_waits_for_its_next_attempt_in_a_resumed_run(run):
    run.end("GPT2/s0", 1.0, status="failed", reason="killed")
    opened = open_run(run.folder.path)[1]
    again = Session(number=3, started="2025-01-03T00:00:00.000Z", commit=None, dirty=None, host={},
                    command=[])  # fmt: skip
    save(run.folder, replace(opened, sessions=[*opened.sessions, again]))
    run.hold()
    assert row(look(run), "GPT2/s0").state == "starting"


def test_readings_have_units_or_reasons(run):
    run.report("GPT2/s0", 10, 1.0, power_w=311.5)
    readings = {r.name: r for r in look(run).readings}
    assert (readings["power_w"].value, readings["power_w"].unit) == (311.5, "W")
    assert readings["utilisation"].value is None
    assert readings["utilisation"].reason == "not recorded on a CPU"


def test_the_share_of_matmul(run):
    run.append("host", record("peaks", "matmul_rate", 4.0, subject="cpu"))
    run.report("GPT2/s0", 10, 1.0, model_tflop_per_s=1.0)
    assert row(look(run), "GPT2/s0").share_of_matmul == 0.25


def test_before_training_the_stage_at_work_is_said(run):
    run.hold()
    run.folder.stage("host").mkdir(parents=True)
    snapshot = look(run)
    assert snapshot.state_reason == "training has not begun: the stage host is at work"
    assert {r.state for r in snapshot.cells} == {"waiting"}
    run.done("host")
    assert "no stage is at work yet" in look(run).state_reason


@pytest.mark.parametrize("data", [None, {}, {"step": "7"}, {"step": -1}, {"step": True}])
def test_records_of_another_shape_are_passed_over(run, data):
    run.append("train", record("GPT2/s0", "train_loss", 4.0, data=data))
    run.append("train", record("odd", "train_loss", 4.0), record("GPT2/s0", "x", 1.0))
    here = row(look(run), "GPT2/s0")
    assert here.step is None and here.train_loss == 4.0


def test_a_look_reads_only_what_is_new(run):
    run.report("GPT2/s0", 10, 1.0)
    watched = WatchedRun(folder=run.folder)
    watched.look()
    size = run.folder.log("train").stat().st_size
    assert watched.tails["train"].offset == size
    run.report("GPT2/s0", 20, 2.0)
    assert row(watched.look(), "GPT2/s0").step == 20
    with open(run.folder.log("train"), "ab") as file:
        file.write(b'{"metric":"train_lo')
    assert row(watched.look(), "GPT2/s0").step == 20


def test_the_newest_run_that_trains(tmp_path):
    write_run(tmp_path / "a" / "20250101T000000.000Z-aaaa")
    newer = write_run(tmp_path / "b" / "20250102T000000.000Z-aaaa").folder
    write_run(tmp_path / "b" / "20250103T000000.000Z-aaaa", config={"STAGES": '"host,bench"'})
    (tmp_path / "b" / "20250104T000000.000Z-aaaa").mkdir()
    (tmp_path / "b" / "20250104T000000.000Z-aaaa" / "run.json").write_text("{")
    for path in (None, tmp_path, tmp_path / "b", newer.path):
        assert find_run(path, tmp_path).path == newer.path
    with pytest.raises(BadInput, match="trains nothing: its stages are host, bench"):
        find_run(tmp_path / "b" / "20250103T000000.000Z-aaaa", tmp_path)
