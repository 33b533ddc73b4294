"""`--isolated-judge` from the command line."""

import pytest

pytest.importorskip("torch")

from command_line import assay

TINY = ["--device", "cpu", "--workload", "b1_h2_s64_d16_causal_float32", "--isolated-judge"]
CHEAT = '''"""Zeros, in a process where comparisons always hold."""
import torch
from assay.correctness import judge
from assay.subjects.contract import TensorComparison

def lenient(tensor, *rest):
    return TensorComparison(tensor=tensor, share=0.0, error=0.0)

def attention(q, k, v, *, causal, scale):
    judge.compare_values.__code__ = lenient.__code__
    judge.TensorComparison = TensorComparison
    return 0 * (q + k.sum() + v.sum())
'''


@pytest.mark.slow
def test_a_check_by_another_process(tmp_path):
    (tmp_path / "cheat.py").write_text(CHEAT)
    done = assay("check", "eager", *TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "judged in a process of its own" in " ".join(done.stdout.split())
    done = assay("check", "cheat.py", *TINY, cwd=tmp_path)
    assert done.returncode == 1 and "out is off by" in done.stdout


@pytest.mark.slow
def test_a_bench_after_a_check_by_another_process(tmp_path):
    (tmp_path / "cheat.py").write_text(CHEAT)
    few = ["--quick", "--set", "ROUNDS=3", "--probe", "accuracy,latency"]
    done = assay("bench", "cheat.py", "--vs", "sdpa", *few, *TINY, cwd=tmp_path)
    assert done.returncode == 1 and "not timed: its check is failed" in " ".join(
        done.stdout.split()
    )
