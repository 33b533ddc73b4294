"""The benchmark of encoding, in a form that takes seconds, so that it cannot rot."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from assay.host import CHECKOUT


@pytest.mark.slow
def test_it_measures_every_way_and_says_so(tmp_path):
    command = [sys.executable, CHECKOUT / "benchmarks/kv_encode.py", "--rounds", "2"]
    command += ["--tokens", "16", "--no-fused", "--json", tmp_path / "measured.json"]
    done = subprocess.run(
        list(map(str, command)),
        cwd=CHECKOUT, env={"PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "measured.json").read_text())
    assert {result["threads"] for result in results} == {1, len(os.sched_getaffinity(0))}
    for result in results:
        assert result["fused"] == "fused: left out"
        assert set(result["ways"]) == {
            "cast", "values, by rows", "copy", "keys", "keys, with header and checksum",
        }  # fmt: skip
        for name, way in result["ways"].items():
            assert len(way["seconds"]) == 2
            if name not in ("cast", "copy"):
                ratio, low, high = way["ratio"]
                assert 0 < low <= ratio <= high
                assert name in done.stdout
