"""The suite's verdicts in a report: a word for each probe, and why it is as it is."""

from build_run import append, begin, end

from assay.records.schema import Measurement
from assay.reports.contents import read_contents
from assay.reports.report import compose


def test_verdicts_stand_beside_each_other_and_causes_are_told(tmp_path):
    made = begin(tmp_path / "run")
    held = Measurement(
        metric="accuracy", value=0.5, unit="ratio", subject="eager", samples=[0.1, 0.5]
    )
    lost = Measurement(
        metric="accuracy",
        value=40.0,
        unit="ratio",
        subject="mine",
        samples=[0.2, 40.0],
        status="failed",
        reason="out is off by 1; smallest failing case b1_h1",
        cause="the scale is applied twice",
    )
    hung = Measurement(
        metric="shapes", value=None, unit="", subject="mine", status="timeout", reason="too long"
    )
    append(made, "suite", "suite/eager", held)
    append(made, "suite", "suite/mine", lost, hung)
    end(made, "suite", status="failed", reason="1 of 2 cells failed")
    report = compose(read_contents(made))
    (table,) = [table for table in report.results if table.title == "Verdicts"]
    assert table.columns == ("probe", "eager", "mine")
    words = [[entry.text for entry in row] for row in table.entries]
    assert words == [["accuracy", "ok", "FAILS"], ["shapes", "—", "HANGS"]]
    assert table.entries[0][1].detail == "2 cases, 0.5000"
    assert any(
        "likely cause: the scale is applied twice" in str(row) for row in report.outcomes.rows
    )
