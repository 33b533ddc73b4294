"""Runs that contradict themselves: what could be edited in one and still pass."""

import msgspec
import pytest
from altered_runs import altered, arm, recorded

from assay.verify.compared import FINAL, RunComparison, load
from assay.verify.evidence import FOLDER
from assay.verify.judgement import judge

replace = msgspec.structs.replace
A = arm("GPT2", "a")


def with_value(metric, value):
    return recorded(A, metric, lambda r: replace(r, value=value))


QUICK = load(FOLDER / "quickstart-cpu")
CONTRADICTED = {
    "a rate that was never reached": (altered(A, {"TRAIN_LEARNING_RATE": '"1e-1"'}), "configured"),
    "steps that were not made": (altered(A, {"TRAIN_STEPS": "6000"}), "configured"),
    "a batch of one": (altered(A, {"TRAIN_BATCH": "1"}), "configured"),
    "another dataset": (altered(A, {"TRAIN_DATASET": '"fineweb"'}), "configured"),
    "another dtype": (altered(A, {"TRAIN_DTYPE": '"float32"'}), "configured"),
    "compiled, it says": (altered(A, {"TRAIN_COMPILED": "y"}), "configured"),
    "a best loss that no step had": (with_value("best_val_loss", 1.0), "derived"),
    "a speed that its seconds deny": (with_value("mean_tokens_per_s", 2e6), "derived"),
    "a last loss of another step": (
        recorded(A, FINAL, lambda r: replace(r, value=0.5, samples=[0.5 for _ in r.samples])),
        "derived",
    ),
    "records of a stranger": (recorded(A, FINAL, lambda r: replace(r, run="other")), "derived"),
    "every record twice": (
        type(QUICK)(name="q", run=QUICK.run, records=QUICK.records * 2),
        "derived",
    ),
    "seconds for milliseconds": (
        recorded(QUICK, "latency_ms", lambda r: replace(r, unit="s") if r.subject == "sdpa" else r),
        "derived",
    ),
    "the least sample for the median": (
        recorded(QUICK, "latency_ms", lambda r: replace(r, value=min(r.samples))),
        "samples",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTED)
def test_a_run_that_contradicts_itself_is_named(name) -> None:
    """Edits of a newcomer, after which a run passed as PASS."""
    run, check = CONTRADICTED[name]
    failed = {f.check for f in judge(RunComparison(runs=(run,))) if f.verdict == "fails"}
    assert check in failed, failed
