"""The decode kernels compile for an H200 without one: a few always, all of them in the full run."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

COMPILED = """
import sys
from assay.attention.decode._split_kv.compile_ahead import cases, compile_case
for case in list(cases())[::9]:
    line, fits = compile_case(case)
    print(line)
    if not fits:
        sys.exit(1)
"""


def run(*command: str) -> str:
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_some_compile_and_fit() -> None:
    assert run("-c", COMPILED).count("bytes shared") == 3


@pytest.mark.slow
def test_all_compile_and_fit() -> None:
    shown = run("-m", "assay.attention.decode._split_kv.compile_ahead")
    assert "compile and fit" in shown
