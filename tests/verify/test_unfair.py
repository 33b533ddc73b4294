"""Ways in which two runs can differ: each unfair one is caught and named, the fair ones pass."""

from statistics import fmean

import msgspec
import pytest
from altered_runs import altered, arm, on_host, recorded, with_data

from assay import plugins
from assay.commit_files import CopyState
from assay.host import CHECKOUT
from assay.verify.checks import commit
from assay.verify.compared import RunComparison
from assay.verify.judgement import KIND, judge

replace = msgspec.structs.replace
A, B = arm("GPT2", "a"), arm("GPT2_MLA", "b")


def other_gpu(host):
    host["devices"][1]["name"] = "NVIDIA H100 80GB HBM3"


def less_memory(host):
    host["devices"][1]["memory_bytes"] //= 2


def other_torch(host):
    host["versions"]["torch"] = "2.9.0"


def halved_rate(record):
    return replace(record, value=record.value / 2)


def without_seed(number):
    return lambda r: None if r.data["seed"] == number else r


def renamed_seed(record):
    return replace(record, data={**record.data, "seed": record.data["seed"] + 7})


def diverged(record):
    more = 0.6 if record.data["seed"] == 1 else 0.0
    samples = [sample + more for sample in record.samples]
    return replace(record, value=record.value + more, samples=samples)


def stuck(record):
    return replace(record, value=3.0)


def disbelieved(record):
    return replace(record, status="refused", reason="read 3.1 ms where 2.0 ms were planted")


def fewer_windows(record):
    return replace(record, samples=record.samples[:20], value=fmean(record.samples[:20]))


def out_of_memory(record):
    return replace(record, value=None, status="oom", reason="out of memory")


def in_second_session(run, **changes):
    """The training is of a second start of the run."""
    second = replace(run.run.sessions[-1], number=2, **changes)
    moved = recorded(run, FINAL, lambda r: replace(r, session=2))
    return altered(moved, sessions=[*run.run.sessions, second])


FINAL = "final_val_loss"
UNFAIR = {
    "more steps": (altered(B, {"TRAIN_STEPS": "900"}, budget=14745600.0), "stop_rule"),
    "limited by time": (altered(B, {"TRAIN_MOST_SECONDS": "600"}), "stop_rule"),
    "stopped by another rule": (with_data(B, FINAL, stopped_by="time"), "stop_rule"),
    "more tokens were seen": (with_data(B, FINAL, tokens=14745600, step=900), "budget"),
    "larger batch": (altered(B, {"TRAIN_BATCH": "128"}, batch=[128]), "batch"),
    "larger batch by its tokens": (with_data(B, FINAL, step=300), "batch"),
    "other rate": (altered(B, {"TRAIN_LEARNING_RATE": '"1e-3"'}), "learning_rate"),
    "rate halved by a counter": (recorded(B, "learning_rate", halved_rate), "learning_rate"),
    "longer warm-up": (altered(B, {"TRAIN_WARMUP": "200"}), "learning_rate"),
    "other optimizer": (altered(B, {"TRAIN_OPTIMIZER": '"adamwspam"'}), "optimizer"),
    "no weight decay": (altered(B, {"TRAIN_WEIGHT_DECAY": '"0"'}), "optimizer"),
    "other clip": (altered(B, {"TRAIN_CLIP": '"0.5"'}), "optimizer"),
    "other GPU": (on_host(B, other_gpu), "hardware"),
    "a GPU with less memory": (on_host(B, less_memory), "hardware"),
    "two GPUs": (altered(B, devices=["cuda:0", "cuda:1"]), "hardware"),
    "compiled": (altered(B, compiled=True), "compiled"),
    "float32": (altered(B, {"TRAIN_DTYPE": '"float32"'}, dtype=["float32"]), "dtype"),
    "other dataset": (with_data(B, FINAL, dataset="shakespeare"), "dataset"),
    "other sources of one name": (with_data(B, FINAL, dataset_digest="0" * 64), "dataset"),
    "other tokenizer": (altered(B, {"TRAIN_TOKENIZER": '"byte"'}), "dataset"),
    "shorter sequences": (altered(B, {"TRAIN_LENGTH": "128"}), "dataset"),
    "other validation": (with_data(B, FINAL, eval_stream="1" * 64), "evaluation"),
    "fewer windows": (recorded(B, FINAL, fewer_windows), "evaluation"),
    "two seeds": (recorded(B, FINAL, without_seed(2)), "seeds"),
    "other seeds": (recorded(B, FINAL, renamed_seed), "seeds"),
    "a diverged seed": (recorded(B, FINAL, diverged), "seeds"),
    "changed files": (altered(B, dirty=True), "commit"),
    "no commit": (altered(B, commit=None, dirty=None), "commit"),
    "a commit that nobody has": (altered(B, commit="f" * 40), "commit"),
    "parameters that stood still": (recorded(B, "unmoved_parameters", stuck), "parameters"),
    "a disbelieved clock": (recorded(B, "calibration.clock", disbelieved), "instruments"),
    "a cell without memory": (recorded(B, FINAL, out_of_memory), "outcomes"),
    "other torch": (on_host(B, other_torch), "differences"),
    "a second treatment": (altered(B, {"TRAIN_DROPOUT": '"0.1"'}), "differences"),
    "an arm is missing": (recorded(B, FINAL, lambda r: r if r.data["seed"] else None), "complete"),
    "a value that was edited": (recorded(B, FINAL, halved_rate), "samples"),
    "a session of another commit": (in_second_session(B, commit="e" * 40), "commit"),
    "a session with changed files": (in_second_session(B, dirty=True), "commit"),
    "a calibration that reads ten times too much": (
        recorded(B, "calibration.clock", lambda r: replace(r, value=10 * r.value)),
        "instruments",
    ),
    "a file of the user's": (altered(B, plugins=["mine"]), "differences"),
    "a dtype that is only set": (altered(B, {"TRAIN_DTYPE": '"float32"'}), "dtype"),
    "compiled as it is only set": (altered(B, {"TRAIN_COMPILED": "y"}), "compiled"),
}


@pytest.mark.parametrize("name", UNFAIR)
def test_an_unfair_comparison_is_caught_and_named(name) -> None:
    other, check = UNFAIR[name]
    findings = judge(RunComparison(runs=(A, other)))
    failed = {finding.check for finding in findings if finding.verdict == "fails"}
    assert check in failed, findings
    # And nothing else is blamed but what follows from it.
    follow = {"differences", "seeds", "complete", "configured", "derived"}
    assert failed <= {check, *follow}, failed


def test_a_copy_that_lists_the_files_of_a_commit_does_not_miss_its_history(monkeypatch) -> None:
    """A machine that measures may keep the copy under git itself, without our commits."""
    copied = CopyState(commit="f" * 40, differing=())
    monkeypatch.setattr(commit.commit_files, "read", lambda checkout: copied)
    for hash_, verdict in (("f" * 40, "not tested"), ("e" * 40, "fails")):
        sessions = [replace(session, commit=hash_) for session in B.run.sessions]
        run = altered(B, commit=hash_, sessions=sessions)
        (finding,) = commit.look(RunComparison(runs=(run,)))
        assert finding.verdict == verdict, finding


FAIR = {
    "the treatment alone": RunComparison(runs=(A, B)),
    "a run and itself": RunComparison(runs=(A, A)),
    "either way round": RunComparison(runs=(B, A)),
    "another name of the study": RunComparison(runs=(A, altered(B, {"STUDY": '"mine"'}))),
    "other folders": RunComparison(
        runs=(A, altered(B, {"RESULTS": '"r"', "TRAIN_DATA_FOLDER": '"d"'}))
    ),
    "the same batch in smaller parts": RunComparison(
        runs=(A, with_data(B, FINAL, micro_batch=16)),
    ),
    "a slower machine's seconds": RunComparison(runs=(A, with_data(B, FINAL, seconds=99.0))),
    "a named treatment": RunComparison(
        runs=(A, altered(A, {"TRAIN_WARMUP": "30"})), treatment=("TRAIN_WARMUP",)
    ),
    "an explained version": RunComparison(
        runs=(A, on_host(B, other_torch)),
        explained={"versions.torch": "the kernels are the same"},
    ),
    "a rate written otherwise": RunComparison(
        runs=(A, altered(B, {"TRAIN_LEARNING_RATE": '"0.0006"'}))
    ),
    "settings of stages that did not run": RunComparison(
        runs=(A, altered(B, {"CACHE_TOKENS": "99", "TRAIN_REPORT_EVERY": "7"}))
    ),
    "as much time, and more tokens in it": RunComparison(
        runs=(
            with_data(A, FINAL, stopped_by="time"),
            with_data(B, FINAL, stopped_by="time", tokens=9011200, step=550),
        )
    ),
    "seeds in another order": RunComparison(
        runs=(A, type(B)(name="b", run=B.run, records=B.records[::-1]))
    ),
}


@pytest.mark.parametrize("name", FAIR)
def test_a_fair_comparison_passes(name) -> None:
    findings = judge(FAIR[name])
    assert [f for f in findings if f.verdict == "fails"] == []
    assert sum(f.verdict == "holds" for f in findings) > 15


def test_runs_that_never_validated_are_compared_by_their_training() -> None:
    """Two runs of other seeds and other lengths differed in nothing, for neither had validated."""
    arms = [recorded(run, FINAL, lambda r: None) for run in (A, B)]
    shorter = recorded(arms[1], "train_loss", lambda r: r if r.data["step"] <= 300 else None)
    other = with_data(arms[1], "train_loss", seed=7)
    for changed, check in ((shorter, "last_step"), (other, "seeds")):
        findings = judge(RunComparison(runs=(arms[0], changed)))
        assert check in {f.check for f in findings if f.verdict == "fails"}, findings


def test_an_explanation_does_not_excuse_an_unfair_setting() -> None:
    other = altered(B, {"TRAIN_WARMUP": "200"})
    findings = judge(RunComparison(runs=(A, other), explained={"TRAIN_WARMUP": "so it is"}))
    assert "learning_rate" in {f.check for f in findings if f.verdict == "fails"}


def test_entries_of_strange_types_are_words_and_no_traceback() -> None:
    strange = with_data(B, FINAL, dataset=["a", {"b": 1}], tokens="many", step=[], seed=None)
    findings = judge(RunComparison(runs=(A, strange)))
    assert {"budget", "dataset", "seeds"} <= {f.check for f in findings if f.verdict == "fails"}


def test_a_missing_optimizer_is_named_and_a_word_for_many_models_is_not() -> None:
    run = altered(A, {"TRAIN_OPTIMIZERS": '"adamw,muon"', "MODELS": '"fast,GPT2"'})
    (failure,) = [f for f in judge(RunComparison(runs=(run,))) if f.verdict == "fails"]
    assert failure.check == "complete" and "GPT2/muon/s0" in failure.reason
    assert "fast" not in failure.reason


def test_what_neither_run_says_is_not_tested() -> None:
    silent = [with_data(run, FINAL, eval_stream=None) for run in (A, B)]
    findings = judge(RunComparison(runs=tuple(silent)))
    (finding,) = [f for f in findings if "eval_stream" in f.reason]
    assert finding.verdict == "not tested"


def test_runs_that_share_nothing_are_refused() -> None:
    other = type(B)(name="b", run=B.run, records=())
    with pytest.raises(Exception, match="share no metric"):
        judge(RunComparison(runs=(A, other)))


def test_every_check_stands_in_the_docs() -> None:
    page = (CHECKOUT / "docs" / "verify.md").read_text()
    assert [name for name in plugins.listing(KIND) if f"| `{name}` |" not in page] == []
