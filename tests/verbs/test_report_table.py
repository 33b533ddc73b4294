"""`assay report RUN --table NAME`: one table of a run, to paste or to compute with."""

import csv
from pathlib import Path

import pytest
from command_line import assay

EVIDENCE = Path(__file__).parents[2] / "evidence" / "readme-bench"


def test_a_table_is_printed_alone(tmp_path):
    names = assay("report", EVIDENCE, "--table", "list", cwd=tmp_path).stdout.split()
    assert {"speed", "verdicts", "stages"} <= set(names)
    text = assay("report", EVIDENCE, "--table", "speed", "--format", "csv", cwd=tmp_path).stdout
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["subject"] for row in rows] == ["sdpa", "eager", "top_left"]
    assert float(rows[0]["forward (ms)"]) == pytest.approx(12.975, abs=0.001)
    assert "it fails" in rows[2]["forward (ms): reason"]
    markdown = assay("report", EVIDENCE, "--table", "speed", cwd=tmp_path).stdout
    assert markdown.startswith("### Speed\n\n| subject |") and "| sdpa | 12.98 " in markdown
    assert not (EVIDENCE / "report.md").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--table", "sped"], "there is no table of this run 'sped'; did you mean speed?"),
        (["--format", "csv"], "add --table NAME"),
        (["--table", "speed", "--format", "xls"], "xls"),
    ],
)
def test_a_table_that_is_not_there_is_refused(tmp_path, flags, words):
    done = assay("report", EVIDENCE, *flags, cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr
