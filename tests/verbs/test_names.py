"""Names that people mistype: the message speaks of what was typed, and asks about the nearest."""

import shlex

import pytest
from command_line import assay

from assay.errors import BadInput, did_you_mean, unknown_name
from assay.records.run import open_run
from assay.workloads.spec import WorkloadSpec, full_dtypes, parse

MISTYPED = {
    "bench eager --vs sdpaa": "--vs sdpaa: there is no implementation 'sdpaa'; did you mean sdpa?",
    "bench sdpaa --vs eager": "assay: sdpaa: there is no implementation 'sdpaa'; did you mean",
    "bench eager --impl sdpaa": "--impl sdpaa: there is no implementation",
    "bench eager --vs eager": "--vs eager eager: 'eager' repeats 'eager'",
    "bench decode/dense --vs decode/dens": "--vs decode/dens: there is no decode kernel 'dens'",
    "check eager --probe accurcy": "--probe accurcy: there is no probe 'accurcy'; did you mean acc",
    "check eager --dtype float17": "--dtype float17: 'float17' is not one of float32, float16, bfl",
    "check eager --device cudaa": "--device cudaa is not understood; did you mean cuda?",
    "check eager --cases 2000000": "--cases 2000000: out of range",
    "check eager --workload b1_h2_s9_flot16": "'flot16' is not understood; did you mean float16?",
    "check --framework toch": "--framework toch: there is no framework 'toch'; did you mean torch?",
    "check --models RAA": "--models RAA: there is no step 'RAA'; did you mean RA",
    "kv quality smollm2 --layout k16v9": "--layout k16v9: there is no layout 'k16v9'; did you mean",
    "kv sizes GPT2 --dtype float17": "--dtype is 'float17'; did you mean float16?",
    "train --dataset shakspear": "--dataset shakspear: there is no dataset 'shakspear'; did you m",
    "eval smollm2 --eval helaswag": "--eval helaswag: there is no eval 'helaswag'; did you mean",
    "capture run --hf smolm2 --to c": "there is no model 'smolm2'; did you mean smollm2?",
    "list sequense": "there is no kind of plugin 'sequense'; did you mean sequence?",
    "config load quickstrat": "there is no defconfig 'quickstrat'; did you mean quickstart?",
    "study plan --set STAGES=suit": "there is no stage 'suit'; did you mean suite?",
    "study plan --set ROUND=9": "there is no setting 'ROUND'; did you mean ROUNDS?",
    "mirror results --to wanb": "there is no tracker 'wanb'; did you mean wandb?",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistyped_name(line, tmp_path):
    done = assay(*shlex.split(line), cwd=tmp_path)
    assert done.returncode == 2 and MISTYPED[line] in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_nearly_named(tmp_path):
    run = tmp_path / "quickstart" / "20261115T021048.123Z-1f3a"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    for path in (run.parent, run.with_name("20261115T021048.123Z-1f3b")):
        with pytest.raises(BadInput, match=f"did you mean {run}"):
            open_run(path)
    with pytest.raises(BadInput, match=r"no run.json. Runs lie in"):
        open_run(tmp_path / "elsewhere" / "x")


def test_nothing_is_guessed_where_nothing_is_near():
    assert did_you_mean("EAGER", ["eager", "sdpa"]) == "did you mean eager?"
    assert did_you_mean("zzz", ["eager", "sdpa"]) == ""
    assert unknown_name("probe", "zzz", ["a", "b"]) == "there is no probe 'zzz'; there are a, b."


def test_a_comparison_needs_what_is_compared(tmp_path):
    """`bench --vs sdpa` timed sdpa alone and compared it with nothing."""
    done = assay("bench", "--vs", "sdpa", "--dry-run", cwd=tmp_path)
    assert done.returncode == 2 and "assay bench my_attention.py --vs sdpa" in done.stderr


def test_short_names_of_dtypes(tmp_path):
    assert full_dtypes("fp32,FP16,half,bf16,int8") == "float32,float16,float16,bfloat16,int8"
    sizes = dict(batch=1, heads=2, kv_heads=2, query_length=9, key_length=9, head_dim=16)
    plain = WorkloadSpec(**sizes, dtype="float32", causal=True, seed=0)
    assert parse("b1_h2_s9_bf16", defaults=plain).dtype == "bfloat16"
    few = ["bench", "eager", "--dry-run", "--set", "LENGTHS=9"]
    for chosen in (["--dtype", "bf16"], ["--set", "DTYPES=bf16"]):
        done = assay(*few, *chosen, cwd=tmp_path)
        assert done.returncode == 0 and "_bfloat16" in done.stdout.replace("\n", ""), done.stderr
    sizes = assay("kv", "sizes", "GPT2", "--dtype", "half", cwd=tmp_path)
    assert sizes.returncode == 0 and "float16" in sizes.stdout
