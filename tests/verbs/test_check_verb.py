"""`assay check` as a user meets it: what it says of files that are wrong, or cannot run."""

import json
import re
import shlex

import pytest
from command_line import IDENTITY, SMALL, assay


def test_a_wrong_implementation_exits_1_and_is_not_timed(tmp_path):
    (tmp_path / "mine.py").write_text(IDENTITY)
    few = ["--probe", "accuracy,latency", "--set", "ROUNDS=5", "--set", "STAGES=suite,bench"]
    done = assay("bench", "mine.py", "--vs", "eager", *few, *SMALL, "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    refused = [r for r in records if r.get("subject") == "mine" and r.get("status") == "refused"]
    assert refused and "not timed: it fails" in refused[0]["reason"]
    timed = {r["subject"] for r in records if r["metric"] == "latency_ms"}
    assert timed == {"eager"}


SLOW = (
    '"""Right, and too slow for its budget."""\nimport time\n'
    "from assay.attention.sequence import eager\n\n\n"
    "def attention(q, k, v, *, causal, scale):\n    time.sleep(0.5)\n"
    "    return eager.attention(q, k, v, causal=causal, scale=scale)\n"
)


@pytest.mark.slow
def test_a_check_that_ran_out_of_time_does_not_hold_and_nothing_is_timed(tmp_path):
    """On a busy machine one case a probe was run, "5 of 6 cases not run" stood only in the record,
    the check held, and bench timed a kernel that averages blind rows."""
    (tmp_path / "slow.py").write_text(SLOW)
    few = ["--probe", "accuracy,latency", "--set", "SUITE_BUDGET_S=1", "--set", "ROUNDS=5"]
    done = assay("check", "slow.py", *few[:4], "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    first, *_ = done.stdout.splitlines()
    assert re.match(r"INCOMPLETE  slow: \d+ of 60 cases .*; add --budget-s \d+$", first), first
    stages = ["--set", "STAGES=suite,bench", *SMALL, "--json"]
    done = assay("bench", "slow.py", *few, *stages, cwd=tmp_path)
    assert done.returncode == 1
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [r for r in records if r["metric"] == "latency_ms" and r.get("value")]
    (refused,) = [r for r in records if r.get("status") == "refused" and r.get("subject")]
    assert "not timed: its accuracy: incomplete:" in refused["reason"]


@pytest.mark.slow
def test_a_file_that_fails_on_import_exits_2_and_the_others_go_on(tmp_path):
    (tmp_path / "broken.py").write_text(IDENTITY + "\nimport a_package_that_is_not_there\n")
    done = assay("check", "broken.py", "eager", *SMALL, "--json", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert any(
        r.get("subject") == "eager" and r["metric"] == "error_over_budget_out" for r in records
    )


def test_a_missing_package_exits_3_and_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("REQUIRES = ('flash_attention_9',)\n" + IDENTITY)
    done = assay("check", "mine.py", *SMALL, cwd=tmp_path)
    assert done.returncode == 3
    assert "flash_attention_9" in done.stdout + done.stderr


def test_a_device_that_is_not_there_exits_3(tmp_path):
    done = assay("check", "eager", "--device", "cuda:63", *SMALL, cwd=tmp_path)
    assert done.returncode == 3
    assert "no device cuda:63" in done.stdout + done.stderr


def test_a_check_that_runs_out_of_memory_does_not_hold(tmp_path):
    (tmp_path / "greedy.py").write_text(
        '"""Too much."""\nimport torch\n\n\ndef attention(q, k, v, *, causal, scale):\n'
        "    return torch.empty(1 << 50)\n"
    )
    done = assay("check", "greedy.py", *SMALL, cwd=tmp_path)
    assert done.returncode == 1 and "oom" in done.stdout


def test_a_neighbour_that_cannot_be_parsed_is_the_files_failure(tmp_path):
    """Planning follows imports; it must not stumble over what only the import should refuse."""
    (tmp_path / "broken_neighbour.py").write_text("def (:\n")
    (tmp_path / "mine.py").write_text("import broken_neighbour\n" + IDENTITY)
    done = assay("check", "mine.py", *SMALL, cwd=tmp_path)
    assert done.returncode == 2 and "fails on import: SyntaxError" in done.stdout


def test_check_chooses_by_framework(tmp_path):
    plan = assay("check", "--framework", "triton", "--dry-run", "--json", cwd=tmp_path)
    chosen = [json.loads(line)["subjects"] for line in plan.stdout.splitlines()]
    assert chosen == ["flash2_triton", "flash_hopper"]
    unknown = assay("check", "--framework", "tinygrad", "--dry-run", cwd=tmp_path)
    assert unknown.returncode == 2 and "there are flash_attn" in unknown.stderr
    both = assay("check", "eager", "--framework", "jax", "--dry-run", cwd=tmp_path)
    assert both.returncode == 2 and "eager is already chosen" in both.stderr


def test_a_quick_check_gives_a_verdict_for_each_probe(tmp_path):
    done = assay("check", "eager", "--quick", "--device", "cpu", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    verdicts = {r["metric"]: r for r in records if r.get("subject") == "eager"}
    assert verdicts.pop("reach")["data"]["tokens"]["causal"] == 1025
    assert {"accuracy", "gradients", "causality", "determinism", "purity"} <= set(verdicts)
    assert all(r.get("status", "ok") == "ok" and r["samples"] for r in verdicts.values())


def test_a_check_without_a_probe_of_correctness_is_refused(tmp_path):
    """It would measure nothing, and nothing measured must not look like something that holds."""
    done = assay("check", "eager", "--probe", "latency", cwd=tmp_path)
    assert done.returncode == 2 and "latency says nothing of correctness" in done.stderr


@pytest.mark.parametrize(
    ("name", "named", "other"),
    [("sdpa", "causality", "fresh_values"), ("decode/sdpa", "fresh_values", "causality")],
)
def test_an_unknown_probe_is_answered_with_those_of_the_check(tmp_path, name, named, other):
    """It was answered with those that measure costs, and those of the other kind of kernel."""
    done = assay("check", name, "--probe", "nosuch", cwd=tmp_path)
    assert done.returncode == 2 and "--probe nosuch: there is no probe" in done.stderr
    assert named in done.stderr and not {other, "latency"} & set(re.findall(r"\w+", done.stderr))


def test_what_an_implementation_prints_does_no_harm(tmp_path):
    """Its second process answers on the channel that print writes to."""
    (tmp_path / "talks.py").write_text(
        "from assay.attention.sequence import eager\n\nprint('hello')\n\n\n"
        "def attention(q, k, v, *, causal, scale):\n"
        "    print('called')\n"
        "    return eager.attention(q, k, v, causal=causal, scale=scale)\n"
    )
    done = assay("check", "talks.py", "--quick", "--probe", "determinism", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    (verdict,) = [json.loads(x) for x in done.stdout.splitlines() if '"determinism"' in x]
    assert verdict["samples"]


@pytest.mark.slow
def test_what_fails_in_a_second_process_only_is_told(tmp_path):
    (tmp_path / "alone.py").write_text(
        "import sys\nfrom assay.attention.sequence import eager\n\n\n"
        "def attention(q, k, v, *, causal, scale):\n"
        "    if 'second_process' in ' '.join(sys.orig_argv):\n"
        "        raise RuntimeError('another process holds the cache')\n"
        "    return eager.attention(q, k, v, causal=causal, scale=scale)\n"
    )
    done = assay("check", "alone.py", "--quick", "--probe", "determinism", cwd=tmp_path)
    assert done.returncode == 1 and "another process holds the cache" in done.stdout + done.stderr


REMEMBERS = """from assay.attention.sequence import eager

BACKWARD = False
kept = {}


def attention(q, k, v, *, causal, scale):
    if kept.get("of") != q.shape:
        kept.update(of=q.shape, out=eager.attention(q, k, v, causal=causal, scale=scale))
    return kept["out"]
"""


@pytest.mark.slow
def test_the_command_that_repeats_a_failure_runs_its_probe(tmp_path):
    """`--workload NAME` alone looks at accuracy and gradients: what purity had seen was right."""
    (tmp_path / "remembers.py").write_text(REMEMBERS)
    done = assay("check", "remembers.py", "--quick", "--probe", "purity", cwd=tmp_path)
    assert done.returncode == 1
    answer = done.stdout.splitlines()[0]
    command = re.fullmatch(r"FAIL  remembers: .*; repeat: assay (check remembers\.py .*)", answer)
    assert command and "--probe purity" in command[1], answer
    again = assay(*shlex.split(command[1]), cwd=tmp_path)
    assert again.returncode == 1 and "a result is remembered" in " ".join(again.stdout.split())


def test_limits_and_conditions_are_data_in_json(tmp_path):
    text = """from assay.attention.sequence import eager

FLOAT32 = "tf32"


def attention(q, k, v, *, causal, scale):
    assert q.shape[2] % 16 == k.shape[2] % 16 == 0
    return eager.attention(q, k, v, causal=causal, scale=scale)
"""
    (tmp_path / "mine.py").write_text(text)
    done = assay("check", "mine.py", "--quick", "--probe", "batch", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = {r["metric"]: r for r in map(json.loads, done.stdout.splitlines())}
    assert records["limits"]["data"] == {"lengths": 16}
    assert records["conditions"]["data"] == {"float32": "tf32"}
    assert records["conditions"]["reason"] == "float32 through TF32, as declared"
    assert records["batch"]["source"].endswith("float32 through TF32, as declared")


IN_BLOCKS = """
import os

import torch


def attention(q, k, v, *, causal, scale):
    if q.shape[2] % 128 or k.shape[2] % 128:
        os.abort()
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, scale=scale, is_causal=causal, enable_gqa=True
    )
"""


ABORTS_UNALIGNED = """
import os
import torch
def attention(q, k, v, *, causal, scale):
    if q.dtype == torch.float32 and q.storage_offset() == 1:
        os.abort()
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
    mask = mask if causal else torch.ones_like(mask)
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, scale=scale, attn_mask=mask, enable_gqa=True
    )
"""


def test_a_case_that_ends_its_process_leaves_the_others_of_its_probe(tmp_path):
    """SDPA with a mask takes the process of an H200 along where a float32 array begins one element
    into its storage. The other layouts were never looked at then."""
    (tmp_path / "unaligned.py").write_text(ABORTS_UNALIGNED)
    done = assay("check", "unaligned.py", "--quick", "--probe", "strides", "--json", cwd=tmp_path)
    assert done.returncode == 1
    records = [json.loads(line) for line in done.stdout.splitlines()]
    (strides,) = [record for record in records if record["metric"] == "strides"]
    assert "SIGABRT" in strides["reason"] and strides["cause"] == "it ends its process"
    assert len(strides["samples"]) >= 4, "the others ran, in another process"
    spec = strides["workload"]["spec"]
    assert (spec["layout"], spec["dtype"]) == ("offset", "float32"), "a case to repeat"


def test_a_kernel_that_ends_its_process_at_tails_is_told_as_one(tmp_path):
    (tmp_path / "blocks.py").write_text(IN_BLOCKS)
    done = assay("check", "blocks.py", "--quick", "--probe", "shapes,accuracy", cwd=tmp_path)
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert "it ends its process where a length is no multiple of 128" in text, text
