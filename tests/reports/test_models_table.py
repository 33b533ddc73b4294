"""Models in a report: what each is made of, the gates it passed, and what to do about the rest."""

from build_run import append, begin, end

from assay.records.schema import Measurement, WorkloadIdentity
from assay.reports.contents import read_contents
from assay.reports.models_table import failures, models_table
from assay.reports.report import Report, compose

LEAK = "logits move by 0.5"
HOW = "Change the last token."


def said(subject: str, metric: str, value: float | None = 0.0, **outcome) -> Measurement:
    made_of = WorkloadIdentity(
        name=subject,
        spec={"steps": ["MLA"], "wanting": ["Step MLA: more."], "parts": ["MLA"], "options": ""},
        content=None,
    )
    return Measurement(
        subject=subject, metric=metric, value=value, unit="", workload=made_of, **outcome
    )


def report_of(folder, *found: Measurement) -> tuple[Report, list]:
    made = begin(folder / "run")
    append(made, "models", "family", *found)
    end(made, "models")
    contents = read_contents(made)
    return compose(contents), contents.records


def rows(records) -> list[list[str]]:
    table = models_table(records)
    assert table
    return [[entry.text for entry in row] for row in table.entries]


def test_a_model_is_told_in_one_row(tmp_path):
    report, records = report_of(
        tmp_path,
        said("GPT2_MLA", "logits"),
        said("GPT2_MLA", "splice", None, status="unsupported", reason="no splice in it"),
        said("GPT2_MLA", "parameters", 117_400_320),
        said("GPT2_MLA", "cache_bytes_per_token", 6144),
    )
    assert rows(records) == [["GPT2_MLA", "MLA", "MLA", "117,400,320", "6,144", "1/1", ""]]
    assert not report.outcomes.rows and "holds" in report.verdict
    assert models_table(records).note.count("Step MLA: more.") == 1
    assert [table.title for table in report.results] == ["Models"]


def test_a_gate_that_fails_is_told_with_what_to_do(tmp_path):
    lost = {"status": "failed", "reason": LEAK, "cause": HOW}
    report, records = report_of(
        tmp_path,
        said("GPT2_A", "logits"),
        said("GPT2_A", "causality", 0.5, **lost),
        said("GPT2_A", "parameters", None, reason="cannot be built at this size"),
        said("GPT2_B", "causality", 0.5, **lost),
    )
    assert [row[-2:] for row in rows(records)] == [["1/2", "causality"], ["0/1", "causality"]]
    assert list(failures(records)) == [
        f"causality: {HOW}",
        f"    GPT2_A: {LEAK}",
        f"    GPT2_B: {LEAK}",
    ]
    assert any(f"to debug: {HOW}" in str(row) for row in report.outcomes.rows)


def test_one_reason_of_several_gates_is_told_once(tmp_path):
    lost = {"status": "failed", "reason": "cannot be built", "cause": HOW}
    _, records = report_of(
        tmp_path, said("GPT2_A", "logits", None, **lost), said("GPT2_A", "step", None, **lost)
    )
    assert list(failures(records)) == ["logits, step:", "    GPT2_A: cannot be built"]
    assert [row[-2:] for row in rows(records)] == [["0/2", "all"]]


def test_a_hang_leaves_gates_that_were_not_run(tmp_path):
    _, records = report_of(
        tmp_path,
        said("GPT2_A", "logits", None, status="timeout", reason="too long", cause="it hangs"),
        said("GPT2_A", "step", None, status="skipped", reason="not run"),
    )
    assert [row[-2:] for row in rows(records)] == [["0/2", "logits"]]
    assert list(failures(records)) == ["logits: it hangs", "    GPT2_A: too long"]


def test_without_models_there_is_no_table(tmp_path):
    assert models_table([]) is None
