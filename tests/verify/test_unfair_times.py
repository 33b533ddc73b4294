"""Times and caches: comparisons that are unfair, and figures that bytes contradict."""

import dataclasses

import msgspec
import pytest
from altered_runs import recorded

from assay.records.schema import MACHINE_LOAD
from assay.verify.compared import RunComparison, load
from assay.verify.evidence import FOLDER
from assay.verify.judgement import judge

replace = msgspec.structs.replace
TIMES = load(FOLDER / "grid-gqa-h200")
STRONG = ("sdpa_cudnn", "jax_cudnn")


def on_other_workloads(**changes):
    return recorded(
        TIMES, "latency_ms", lambda r: replace(r, workload=replace(r.workload, **changes))
    )


def without_peers(record):
    return None if record.subject in STRONG else record


def hurried(record, times=9):
    samples = [sample / times for sample in record.samples]
    return replace(record, value=record.value and record.value / times, samples=samples)


def beside_others():
    """The first time was taken while others had the cores."""
    timed = TIMES.of("latency_ms")[0]
    remark = replace(
        timed, metric=MACHINE_LOAD, subject="", value=9.0, unit="processes", samples=[],
        reason="the machine was busy: load 9.0 on 2 cores; times are of a busy machine",
    )  # fmt: skip
    return dataclasses.replace(TIMES, records=(*TIMES.records, remark))


UNFAIR_TIMES = {
    "on a busy machine": (beside_others(), "machine_load"),
    "other inputs of one name": (on_other_workloads(content="0" * 32), "workloads"),
    "no inputs were made": (on_other_workloads(content=None), None),
    "other workloads": (on_other_workloads(name="another"), "workloads"),
    "other dtype": (on_other_workloads(spec={"dtype": "float16"}), "dtype"),
    "timed in another way": (
        recorded(TIMES, "latency_ms", lambda r: replace(r, source="host clock")),
        "workloads",
    ),
    "few rounds": (
        recorded(TIMES, "latency_ms", lambda r: replace(r, samples=r.samples[:3])),
        "workloads",
    ),
    "times below zero": (
        recorded(TIMES, "latency_ms", lambda r: r.value and replace(r, value=-1.0, samples=[])),
        "samples",
    ),
    "called ok beyond the budget": (
        recorded(TIMES, "error_over_budget_out", lambda r: replace(r, value=9.0)),
        "errors",
    ),
    "a weak baseline": (recorded(TIMES, "latency_ms", without_peers), "baseline"),
    "faster than the machine": (recorded(TIMES, "latency_ms", hurried), "byte_bound"),
    "a cache counted in another dtype": (
        recorded(TIMES, "kv_cache_bytes", lambda r: replace(r, value=2 * r.value)),
        "cache_bytes",
    ),
}


@pytest.mark.parametrize("name", UNFAIR_TIMES)
def test_an_unfair_comparison_of_times_is_caught(name) -> None:
    other, check = UNFAIR_TIMES[name]
    findings = judge(RunComparison(runs=(TIMES, other)))
    failed = {finding.check for finding in findings if finding.verdict == "fails"}
    assert (check in failed) if check else not failed, findings
    assert check or any(f.verdict == "not tested" for f in findings if f.check == "workloads")


def test_a_subject_that_was_timed_and_hardly_checked_is_named() -> None:
    unexamined = type(DECODED)(
        name=DECODED.name,
        run=DECODED.run,
        records=tuple(
            (
                replace(r, status="unsupported", value=None, reason="no float32", samples=[])
                if (r.stage, r.subject) == ("decode_suite", "dense:sdpa_cudnn")
                else r
            )
            for r in DECODED.records
        ),
    )
    (finding,) = [f for f in judge(RunComparison(runs=(unexamined,))) if f.verdict == "fails"]
    assert finding.check == "cases" and "dense:sdpa_cudnn (0)" in finding.reason


def test_a_peer_in_another_dtype_is_none() -> None:
    quick = load(FOLDER / "quickstart-h200")
    assert not [f for f in judge(RunComparison(runs=(quick,))) if f.verdict == "fails"]
    for dtype, peer in (("float32", "sdpa"), ("bfloat16", "sdpa_cudnn")):
        left = recorded(
            quick,
            "latency_ms",
            lambda r, d=dtype, p=peer: (
                None if (r.subject, r.workload.spec["dtype"]) == (p, d) else r
            ),
        )
        (finding,) = [f for f in judge(RunComparison(runs=(left,))) if f.verdict == "fails"]
        assert finding.check == "baseline" and f"quickstart-h200 in {dtype}" in finding.reason


DECODED, CACHED = load(FOLDER / "decode-h200"), load(FOLDER / "kv-quality-float32-h200")


def unread_half(record):
    """Faster than a quarter of the bytes allows, and slower than what the machine reads."""
    return hurried(record, times=2.5) if record.subject == "int4:int4" else record


def of_other_tokens(record):
    if record.subject != "k16v8":
        return record
    halved = {name: size // 2 for name, size in record.data["streams"].items()}
    return replace(record, value=float(sum(halved.values())), data={"streams": halved})


@pytest.mark.parametrize(
    ("run", "check", "words"),
    [
        (recorded(DECODED, "latency_ms", unread_half), "byte_bound", "int4:int4 takes"),
        (
            recorded(CACHED, "cache_read_bytes", lambda r: replace(r, value=r.value - 64)),
            "cache_bytes",
            "its streams have",
        ),
        (
            recorded(CACHED, "cache_read_bytes", of_other_tokens),
            "cache_bytes",
            "tokens side by side",
        ),
    ],
    ids=["not all was read", "bytes that no stream has", "caches of other tokens"],
)
def test_caches_that_bytes_contradict_are_named(run, check, words) -> None:
    findings = judge(RunComparison(runs=(run,)))
    reasons = [f.reason for f in findings if f.verdict == "fails" and f.check == check]
    assert len(reasons) == 1 and words in reasons[0], findings
