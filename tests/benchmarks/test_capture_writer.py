"""The benchmark of the writer, in a form that takes a second, so that it cannot rot."""

import json
import subprocess
import sys

from assay.host import CHECKOUT


def test_it_measures_both_ways_and_says_so(tmp_path):
    command = [sys.executable, CHECKOUT / "benchmarks/capture_writer.py", "--rounds", "2"]
    command += ["--sizes", "1", "--round-megabytes", "4", "--folder", tmp_path / "scratch"]
    done = subprocess.run(
        [*map(str, command), "--json", str(tmp_path / "found.json")],
        cwd=CHECKOUT, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    rows = json.loads((tmp_path / "found.json").read_text())
    assert [row["sync"] for row in rows] == [True, False]
    for row in rows:
        low, high = row["interval"]
        assert 0 < low <= row["ratio"] <= high
        assert len(row["seconds"]["raw"]) == len(row["seconds"]["writer"]) == 2
    assert not (tmp_path / "scratch").exists()
