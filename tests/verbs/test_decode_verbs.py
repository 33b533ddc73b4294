"""`assay check decode/...` and `assay bench decode/...` as a user meets them."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from command_line import assay

EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "examples" / "my_decode.py"
STEP = ["--workload", "b2_h4_kv2_q1_k70_d32_float32", "--device", "cpu"]


def records_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_file_of_ones_own_is_held_to_cases(tmp_path):
    (tmp_path / "mine").mkdir()
    text = EXAMPLE.read_text()
    (tmp_path / "mine" / "right.py").write_text(text)
    (tmp_path / "mine" / "wrong.py").write_text(text.replace("+ token + 1", "+ token"))
    quick = ["--quick", "--device", "cpu", "--dtype", "float32"]
    done = assay("check", "decode/mine/right.py", *quick, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    verdicts = {r["metric"]: r for r in records_of(done) if r.get("subject") == "k16v8:right"}
    assert {"tails", "ragged", "new_tokens", "magnitudes", "neighbours"} <= set(verdicts)
    done = assay("check", "decode/mine/wrong.py", *quick, "--probe", "tails", cwd=tmp_path)
    assert done.returncode == 1
    assert "9 of 9 cases fail" in " ".join(done.stdout.split())
    assert "--probe tails --workload b2_h8_kv2_q1_k1_d64_causal_float32" in " ".join(
        done.stdout.split()
    )


@pytest.mark.slow
def test_a_workload_that_is_named_is_what_is_asked_about(tmp_path):
    done = assay("check", "decode/sdpa,decode/k8v8:dequantised", *STEP, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = records_of(done)
    assert {r["stage"] for r in records} == {"decode"}
    checked = {r["subject"] for r in records if r["metric"] == "error_over_budget_out"}
    assert checked == {"dense:sdpa", "k8v8:dequantised"}
    assert not [r for r in records if r["metric"] == "latency_ms"]


def test_what_cannot_run_here_exits_3(tmp_path):
    done = assay("check", "decode/sdpa_cudnn", *STEP, cwd=tmp_path)
    assert done.returncode == 3 and "NVIDIA GPU only" in done.stdout


def test_kernels_are_timed_beside_the_first(tmp_path):
    few = ["--quick", "--set", "ROUNDS=6", "--probe", "accuracy,latency,work", "--set"]
    done = assay(
        "bench", "decode/int4:dequantised", "--vs", "decode/sdpa", *STEP, *few, "STAGES=decode",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Speed of decode" in done.stdout and "GB/s" in done.stdout
    assert "over dense:sdpa" in done.stdout and "baseline" in done.stdout


def test_keywords_that_nobody_gives_are_refused(tmp_path):
    """With ACCEPTS = ("length",) a kernel that ignores lengths passed: no case had any."""
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text().replace('("lengths",)', '("length",)'))
    done = assay("check", "decode/mine.py", "--quick", "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 2 and "ACCEPTS names length; wanted some of" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "decode/sdpa", "eager"], "give one kind at a time"),
        (["bench", "decode/sdpa", "--vs", "sdpa"], "give one kind at a time"),
        (["check", "decode/sdpa", "--cases", "4"], "--cases"),
        (["bench", "decode/sdpa", "--aa"], "--aa"),
        (["check", "decode/all,decode/sdpa"], "decode/all stands alone"),
        (["check", "decode/nothing"], "there is no decode kernel 'nothing'"),
        (["check", "decode/mine.py"], "there is no file mine.py"),
        (["check", "decode/sdpa", "--probe", "latency"], "says nothing of correctness"),
        (["check", "decode/sdpa", "--probe", "accuracy"], "wanted some of fresh_values"),
        (["bench", "decode/sdpa"], "no workload of this study is a step of decoding"),
    ],
)
def test_what_cannot_be_meant_exits_2_in_words(arguments, words, tmp_path):
    done = assay(*arguments, "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr, done.stderr
