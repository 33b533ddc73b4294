"""The decode kernels compile for an H200 without one: a few always, all of them in the full run."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from new_process import ROOT, environment

if find_spec("triton") is None:  # not imported: what interprets must be said before
    pytest.skip("needs triton", allow_module_level=True)

COMPILED = """
import sys
from tools.compile_ahead.split_kv import cases, compile_case
for case in list(cases())[::9]:
    line, fits = compile_case(case)
    print(line)
    if not fits:
        sys.exit(1)
"""


def run(*command: str) -> str:
    here = environment(TRITON_INTERPRET="0")
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=here, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_some_compile_and_fit() -> None:
    assert run("-c", COMPILED).count("bytes shared") == 3


@pytest.mark.slow
def test_all_compile_and_fit() -> None:
    shown = run("-m", "tools.compile_ahead.split_kv")
    assert "compile and fit" in shown


@pytest.mark.slow
def test_triton_imported_before_is_refused_in_words() -> None:
    """Its own functions were then compiled ones, and the interpreter ended in a traceback."""
    program = """
import triton, torch
from assay.attention.decode.dense import decode
from assay.errors import BadInput
kv = {"k": torch.zeros(1, 1, 16, 16), "v": torch.zeros(1, 1, 16, 16)}
try:
    decode(torch.zeros(1, 1, 1, 16), kv, scale=1.0)
except BadInput as error:
    print(error)
"""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "TRITON_INTERPRET=1" in shown.stdout
