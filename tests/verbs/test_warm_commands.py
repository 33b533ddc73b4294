"""A command in a fork of a warm Python is as one in a new Python: its text, files, exit code."""

import json
import os
import subprocess
import sys

import pytest
import warm_commands
from command_line import IDENTITY, SMALL
from new_process import environment

from assay.instruments.descendants import children


def both(folder, *arguments):
    """The command in a new Python, and in a fork."""
    how = {"cwd": folder, "env": environment(), "timeout": 240}
    command = [sys.executable, "-m", "assay", *arguments]
    new = subprocess.run(command, capture_output=True, text=True, **how)
    return new, warm_commands.run(arguments, **how)


@pytest.mark.parametrize("arguments", [("--help",), ("check", "nothing"), ("no_verb",)])
def test_text_and_exit_code_are_those_of_a_new_python(tmp_path, arguments):
    new, fork = both(tmp_path, *arguments)
    assert (new.returncode, new.stdout, new.stderr) == (fork.returncode, fork.stdout, fork.stderr)


def test_cells_that_forks_of_it_run_have_the_same_outcomes(tmp_path):
    (tmp_path / "mine.py").write_text(IDENTITY)
    new, fork = both(tmp_path, "check", "mine.py", *SMALL, "--probe", "accuracy", "--json")
    assert new.returncode == fork.returncode == 1
    assert outcomes(new.stdout) == outcomes(fork.stdout) != []


def outcomes(text):
    records = [json.loads(line) for line in text.splitlines()]
    kept = ("cell", "metric", "subject", "status", "reason", "provenance")
    return [{name: record.get(name) for name in kept} for record in records]


@pytest.mark.slow
def test_a_limit_on_time_leaves_no_process_and_the_next_command_runs(tmp_path):
    how = {"cwd": tmp_path, "env": environment()}
    before = len(children(os.getpid()))
    with pytest.raises(subprocess.TimeoutExpired):
        warm_commands.run(["check", "eager"], timeout=0.2, **how)
    assert len(children(os.getpid())) <= before
    assert warm_commands.run(["--help"], timeout=240, **how).returncode == 0
