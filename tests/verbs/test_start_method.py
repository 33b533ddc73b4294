"""Verbs where processes cannot be forked, as on macOS: ASSAY_START chooses that on Linux too."""

import pytest
from command_line import assay

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def spawn(monkeypatch):
    monkeypatch.setenv("ASSAY_START", "spawn")


def test_a_check_runs_in_new_pythons(tmp_path):
    done = assay("check", "sdpa", "--quick", "--probe", "accuracy,batch", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_files_beside_a_kernel_are_not_taken_for_pythons(tmp_path, monkeypatch, start):
    """A json.py in the current folder ended the process that forks, and the kernel was blamed."""
    monkeypatch.setenv("ASSAY_START", start)
    for name in ("json", "random", "socket"):
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    (tmp_path / "mine.py").write_text("from assay.attention.sequence.eager import attention\n")
    done = assay("check", "mine.py", "--quick", "--probe", "accuracy", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_kernel_that_ends_its_process_is_found_out(tmp_path):
    (tmp_path / "ends.py").write_text(
        "import os, torch\ndef attention(q, k, v, *, causal, scale): os.abort()\n"
    )
    done = assay("check", "ends.py", "--quick", "--probe", "accuracy", cwd=tmp_path)
    assert done.returncode == 1 and "SIGABRT" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_times_and_memory_are_measured_in_new_pythons(tmp_path):
    flags = ["--workload", "b1_h2_s64_d16", "--probe", "latency,memory", "--set", "ROUNDS=3"]
    done = assay("bench", "sdpa", *flags, cwd=tmp_path)
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout + done.stderr


def test_another_word_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_START", "thread")
    done = assay("check", "sdpa", "--quick", "--probe", "accuracy", cwd=tmp_path)
    assert done.returncode == 2 and "fork or spawn" in done.stderr, done.stdout + done.stderr
