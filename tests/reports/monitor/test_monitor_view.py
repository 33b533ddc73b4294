"""Lines of a snapshot: screens of any size, ASCII, and foreign text kept from the terminal."""

import pytest
from watched_records import record, write_run

from assay.reports.monitor.snapshot import Snapshot
from assay.reports.monitor.view import view
from assay.reports.monitor.watched_run import WatchedRun

HOSTILE = "[red]markup[/red] \x1b[2J\x1b]0;title\x07 \x9b31m \u202e \r\n end :smile:"


@pytest.fixture
def snapshot(tmp_path) -> Snapshot:
    run = write_run(tmp_path / "tiny" / "20250101T000000.000Z-aaaa")
    with run.stack:
        run.hold()
        for step in range(10, 101, 10):
            run.report("GPT2/s0", step, step / 10, val_loss=5.0 - step / 50)
        run.end("GPT2/s0", 11.0)
        for step in range(10, 61, 10):
            run.report("GPT2_MLA/s0", step, 12 + step / 10, val_loss=5.5 - step / 50)
        return WatchedRun(folder=run.folder).look()


@pytest.fixture
def hostile(tmp_path) -> Snapshot:
    """Every text that a run folder brings along is hostile: names, reasons, the study itself."""
    run = write_run(tmp_path / "x" / "r", study=HOSTILE)
    run.configure(MODELS=f'"{HOSTILE}"', TRAIN_OPTIMIZERS=f'"{HOSTILE}"')
    data = {"step": 10, "seconds": 1.0, "tokens": 1}
    run.append("train", record(f"{HOSTILE}/s0", "val_loss", 4.0, data=data),
               record(f"{HOSTILE}/s0", "train_loss", 4.0, data=data),
               record(f"{HOSTILE}/s0", HOSTILE, None, status="failed", reason=HOSTILE),
               record(f"{HOSTILE}/s0", "power_w", None, reason=HOSTILE))  # fmt: skip
    run.done("train", "failed", HOSTILE)
    return WatchedRun(folder=run.folder).look()


def text(snapshot: Snapshot, width=80, height=None, plain=True) -> str:
    return "\n".join(line.plain for line in view(snapshot, width=width, height=height, plain=plain))


def test_a_screen_of_80_columns_has_all_that_matters(snapshot):
    shown = " ".join(text(snapshot).split())
    for words in (
        ": running for", "1 of 4 cells ended", "now GPT2_MLA seed 0: ETA",
        "next GPT2/s1, GPT2_MLA/s1", "next at step 80", "saved next at step 100",
        "+0.5000", "60/100", "last 4.3000 at step 60", "validation loss (nats)",
        "* GPT2, 1 seed o GPT2_MLA, 1 seed", "training loss (nats)", "step 100",
        "power, temperature, clock: not", "640",
    ):  # fmt: skip
        assert words in shown, words


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("width", [20, 40, 80, 81, 200])
@pytest.mark.parametrize("height", [1, 5, 10, 24, 30, 50, 200, None])
def test_no_line_leaves_the_screen(snapshot, width, height, plain):
    lines = view(snapshot, width=width, height=height, plain=plain)
    assert lines and all(line.cell_len <= width for line in lines)
    assert height is None or len(lines) <= height


def test_room_is_used_for_curves(snapshot):
    """A window of 24 lines has a chart, and 30 lines had none once: there was room for one only."""
    shown = {n: text(snapshot, height=n, plain=False) for n in (24, 30, 40, 60)}
    assert [words.count("(nats)") for words in shown.values()] == [1, 1, 2, 2]
    heights = [words.count("│") for words in shown.values()]
    assert heights[0] >= 4 and heights == sorted(set(heights))
    wide = text(snapshot, width=160)
    assert max(map(len, wide.splitlines())) > 120 and "trained" in wide


def test_plain_is_ascii(snapshot):
    assert text(snapshot).isascii() and not text(snapshot, plain=False).isascii()


def test_the_rows_around_what_is_at_work_are_shown(tmp_path):
    run = write_run(tmp_path / "tiny" / "r")
    run.configure(TRAIN_SEEDS=f'"{",".join(map(str, range(40)))}"')
    with run.stack:
        run.hold()
        run.report("GPT2/s20", 10, 1.0)
        snapshot = WatchedRun(folder=run.folder).look()
    shown = text(snapshot, height=24)
    assert "  20  running" in shown and "cells more" in shown


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("height", [None, 40])
def test_nothing_foreign_reaches_the_terminal(hostile, height, plain):
    for line in view(hostile, width=160, height=height, plain=plain):
        assert line.plain.isprintable(), repr(line.plain)
    shown = text(hostile, width=160, height=height, plain=plain)
    assert "[red]markup[/red]" in shown and ":smile:" in shown, "it is shown as it is written"


def test_a_failure_has_its_reason_in_full(tmp_path):
    run = write_run(tmp_path / "tiny" / "r")
    reason = " ".join(f"word{number}" for number in range(60))
    run.end("GPT2/s0", 1.0, status="failed", reason=reason)
    snapshot = WatchedRun(folder=run.folder).look()
    assert reason in " ".join(text(snapshot).split())
    assert len(text(snapshot, height=24).splitlines()) <= 24
