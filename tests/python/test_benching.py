"""`assay.bench` as a script calls it: a function of `__main__`, twice in one process."""

import subprocess
import sys

import pytest

import assay
from assay.errors import BadInput

SCRIPT = """
import sys
import torch
import assay

def mine(q, k, v, *, causal, scale):
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q.float() @ k.float().mT * scale
    if causal:
        queries, keys = scores.shape[-2:]
        later = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
        scores = scores.masked_fill(later, -torch.inf)
    return (scores.softmax(-1).nan_to_num(0.0) @ v.float()).to(q.dtype)

def wrong(q, k, v, *, causal, scale):
    return 2 * mine(q, k, v, causal=causal, scale=scale)

options = dict(workload="b1_h2_s64_d32_causal_float32", probe="latency", quick=True)
options |= dict(settings={"ROUNDS": 4, "WARMUP": 1, "STAGES": "host,bench"}, out=sys.argv[1])
speeds = assay.bench(mine, against="sdpa", **options)
assert {r.subject for r in speeds.where(metric="latency_ms", status="ok")} == {"sdpa", "mine"}
assert speeds.passed and "mine" in str(speeds.answer), speeds.answer
again = assay.bench([mine, wrong], against="sdpa", **options)
assert not again.passed and not again.where(subject="wrong", metric="latency_ms", status="ok")
assert assay.load_records(again.folder) == again
assert not speeds.where(metric="reused") and len(again.where(metric="reused")) == 2
assert len(speeds.where(metric="matmul_rate")) == len(again.where(metric="matmul_rate")) == 1
print(again.write_report())
"""


@pytest.mark.slow  # two benches: 15 s on a quiet core
def test_functions_of_a_script_are_timed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, script, tmp_path / "results"], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "run " not in ended.stderr  # its output is its own
    assert ended.stdout.strip().endswith("report.html")
    assert "mine" in (tmp_path / "results" / ended.stdout.strip()).read_text()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "nothing to measure"),
        (3, "was given 3; wanted a function"),
        ("no_such_kernel", "no_such_kernel"),
    ],
)
def test_what_cannot_be_timed_is_refused(given, words, tmp_path):
    with pytest.raises(BadInput, match=words):
        assay.bench(given, against="sdpa", quick=True, out=tmp_path)


def mine(q, k, v, *, causal, scale):
    return v


def other(q, k, v, *, causal, scale):
    return v


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("eager", {"workloads": "b1_h1_s8_d16"}, "no option 'workloads'; did you mean workload"),
        (mine, {"backwards": False}, "no option 'backwards'; did you mean backward"),
        ("eager", {"layout": "BSHD"}, "layout is said of a function, and 'eager' is a name"),
        ([mine, "eager"], {"layout": "BSHD"}, "and 'eager' is a name or file"),
    ],
)
def test_an_option_without_effect_is_refused(given, options, words, tmp_path):
    """Beside a name or file any keyword passed: `workloads=` ran the default workload."""
    with pytest.raises(BadInput, match=words):
        assay.bench(given, against="sdpa", quick=True, out=tmp_path, **options)
    assert not any(tmp_path.iterdir())


def test_declarations_are_of_the_first_functions_alone(tmp_path, monkeypatch):
    """The layout of `attention` was also written into the file of `against`."""
    monkeypatch.setattr("assay.python.benching._run", lambda study, *_, **__: study)
    assay.bench(mine, against=other, quick=True, layout="BSHD", out=tmp_path)
    texts = {path.stem: path.read_text() for path in tmp_path.rglob("*.py")}
    assert "LAYOUT = 'BSHD'" in texts["mine"] and "LAYOUT" not in texts["other"]
