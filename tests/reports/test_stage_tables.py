"""Tables chosen by stage: the suite's verdicts, models and their gates, and files of one's own."""

import pytest
from build_run import append, begin, end, measured

from assay.laws.curves import DECODE, MEASURING
from assay.plugins import listing, load
from assay.records.schema import WorkloadIdentity
from assay.records.verdicts import failing, unsupported
from assay.reports.build import build
from assay.reports.contents import read_contents
from assay.reports.report import Report, compose
from assay.reports.tables import models

LEAK = "logits move by 0.5"
HOW = "Change the last token."
OWN = '''"""Perplexities of a new stage."""
from assay.reports.table import Table
STAGES = ("quality",)

def tables(stage, records):
    values = [record for record in records if record.metric == "perplexity"]
    rows = tuple((record.subject, str(record.value)) for record in values)
    return [Table(title="Perplexity", columns=("model", "nats"), rows=rows)]
'''

FIGURE = '''"""Perplexities of a new stage, by model."""
from assay.reports.chart import Chart, Series

def draw(records):
    values = [record for record in records if record.metric == "perplexity"]
    points = tuple(Series(subject=r.subject, x=(r.subject,), y=(r.value,)) for r in values)
    return [Chart(name="ppl", title="Perplexity", x_label="model", y_label="nats", series=points)]
'''


def gate(subject: str, metric: str, value: float | None = 0.0, **outcome):
    spec = {"steps": ["MLA"], "parts": ["MLA"], "options": ""}
    identity = WorkloadIdentity(name=subject, spec=spec, content=None)
    return measured(metric, value, "", subject, workload=identity, **outcome)


def report_of(folder, *measurements) -> tuple[Report, list]:
    run = begin(folder / "run")
    append(run, "models", "family", *measurements)
    end(run, "models")
    contents = read_contents(run)
    return compose(contents), contents.records


def rows(records) -> list[list[str]]:
    [table] = models.tables("models", records)
    return [[entry.text for entry in row] for row in table.entries]


def test_a_model_is_one_row(tmp_path):
    report, records = report_of(
        tmp_path,
        gate("GPT2_MLA", "logits"),
        gate("GPT2_MLA", "splice", None, status="unsupported", reason="no splice in it"),
        gate("GPT2_MLA", "parameters", 117_400_320),
        gate("GPT2_MLA", "cache_bytes_per_token", 6144),
    )
    assert rows(records) == [["GPT2_MLA", "MLA", "MLA", "117,400,320", "6,144", "1/1", ""]]
    assert not report.outcomes.rows and "passed" in report.verdict
    [table] = report.results
    assert table.title == "Models"


def test_a_gate_that_fails_says_what_to_do(tmp_path):
    lost = {"status": "failed", "reason": LEAK, "cause": HOW}
    report, records = report_of(
        tmp_path,
        gate("GPT2_A", "logits"),
        gate("GPT2_A", "causality", 0.5, **lost),
        gate("GPT2_A", "parameters", None, reason="cannot be built at this size"),
        gate("GPT2_B", "causality", 0.5, **lost),
    )
    assert [row[-2:] for row in rows(records)] == [["1/2", "causality"], ["0/1", "causality"]]
    assert list(models.failures(records)) == [
        f"causality: {HOW}",
        f"    GPT2_A: {LEAK}",
        f"    GPT2_B: {LEAK}",
    ]
    assert any(f"to debug: {HOW}" in str(row) for row in report.outcomes.rows)


def test_one_reason_of_several_gates_is_given_once(tmp_path):
    lost = {"status": "failed", "reason": "cannot be built", "cause": HOW}
    _, records = report_of(
        tmp_path, gate("GPT2_A", "logits", None, **lost), gate("GPT2_A", "step", None, **lost)
    )
    assert list(models.failures(records)) == ["logits, step:", "    GPT2_A: cannot be built"]
    assert [row[-2:] for row in rows(records)] == [["0/2", "all"]]


def test_a_hang_leaves_gates_that_were_not_run(tmp_path):
    _, records = report_of(
        tmp_path,
        gate("GPT2_A", "logits", None, status="timeout", reason="too long", cause="it hangs"),
        gate("GPT2_A", "step", None, status="skipped", reason="not run"),
    )
    assert [row[-2:] for row in rows(records)] == [["0/2", "logits"]]
    assert list(models.failures(records)) == ["logits: it hangs", "    GPT2_A: too long"]


def test_verdicts_stand_beside_each_other_and_causes_are_given(tmp_path):
    run = begin(tmp_path / "run")
    held = measured("accuracy", 0.5, "ratio", "eager", samples=[0.1, 0.5], workload=None)
    lost = measured(
        "accuracy",
        40.0,
        "ratio",
        "mine",
        samples=[0.2, 40.0],
        workload=None,
        status="failed",
        reason="out is off by 1; smallest failing case b1_h1" + failing(3, 15),
        cause="the scale is applied twice",
    )
    hung = measured("shapes", None, "", "mine", status="timeout", reason="too long", workload=None)
    append(run, "suite", "suite/eager", held)
    append(run, "suite", "suite/mine", lost, hung)
    end(run, "suite", status="failed", reason="1 of 2 cells failed")
    report = compose(read_contents(run))
    [table] = report.results
    assert (table.title, table.columns) == ("Verdicts", ("probe", "eager", "mine"))
    words = [[entry.text for entry in row] for row in table.entries]
    assert words == [["accuracy", "ok", "FAILS"], ["shapes", "—", "HANGS"]]
    assert [entry.detail for entry in table.entries[0][1:]] == [
        "2 cases, 0.5000",
        "3 of 15 cases",
    ]
    cause = "likely cause: the scale is applied twice"
    assert any(cause in str(row) for row in report.outcomes.rows)


def test_one_refusal_of_many_probes_is_given_once(tmp_path):
    """A wrapper without its upstream had seven footnotes, alike but for the number of cases."""
    run, absent = begin(tmp_path / "run"), "the upstream is not there"
    refused = [
        measured(
            probe, None, "ratio", "mine", status="unsupported", workload=None,
            reason=unsupported(count, absent),
        )
        for count, probe in enumerate(("batch", "purity", "shapes"), start=2)
    ]  # fmt: skip
    append(run, "suite", "suite/mine", *refused)
    end(run, "suite")
    report = compose(read_contents(run))
    [table] = report.results
    assert [row[1].detail for row in table.entries] == ["2 cases", "3 cases", "4 cases"]
    assert list(table.reasons) == [f"unsupported: {absent}"]
    [row] = report.outcomes.entries
    assert row[-1].text == absent


@pytest.fixture
def quality(tmp_path):
    """A run of a stage that no file of the package names."""
    run = begin(tmp_path / "run")
    append(run, "quality", "k1", measured("perplexity", 17.25, "nats", "gpt2"))
    end(run, "quality")
    return run


def test_a_new_stage_brings_its_table_and_its_figure_as_one_file_each(quality, tmp_path):
    [table] = compose(read_contents(quality)).results
    assert table.title == "Results of quality"
    own = tmp_path / "own"
    own.mkdir()
    (own / "perplexity.py").write_text(OWN)
    (own / "perplexity_chart.py").write_text(FIGURE)
    built = build(quality, plugin_folders=[own])
    assert [path.name for path in built.figures] == ["ppl.png"]
    [table] = built.report.results
    assert table.title == "Perplexity" and table.rows == (("gpt2", "17.25"),)
    assert "Perplexity" in built.html.read_text() and not built.report.problems


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise KeyError('no such thing')", "table perplexity failed: KeyError"),
        ("return [1]", "table perplexity failed: tables returned int; it must return a list"),
    ],
)
def test_a_broken_table_is_a_line_in_the_report(quality, tmp_path, body, words):
    text = f'"""A table."""\nSTAGES = "quality"\n\ndef tables(stage, records):\n    {body}\n'
    (tmp_path / "perplexity.py").write_text(text)
    report = build(quality, plugin_folders=[tmp_path / "perplexity.py"]).report
    assert any(words in problem for problem in report.problems) and report.results == ()


def test_every_table_file_names_stages_but_the_one_for_the_rest():
    files = listing("tables").values()
    assert [plugin.name for plugin in files if not plugin.literals["STAGES"]] == ["results"]
    assert all(load(plugin).tables("bench", []) == [] for plugin in files), "nothing of nothing"
    speeds = [plugin.literals["STAGES"] for plugin in files if "bench" in plugin.literals["STAGES"]]
    alike = tuple(stage for stage in MEASURING if stage != DECODE)  # which has bytes to be held to
    assert set(speeds) == {alike, MEASURING}, "what measures speed is shown alike"
