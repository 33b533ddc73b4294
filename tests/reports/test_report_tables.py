"""Tables of records, before any format."""

from types import SimpleNamespace

from build_run import append, begin, checked, end, latency, measured, workload

from assay.records.schema import Measurement
from assay.reports.answer import answer
from assay.reports.contents import read_contents
from assay.reports.report import judge
from assay.reports.run_tables import outcomes, provenance, stage_endings
from assay.reports.tables.results import tables
from assay.studies.execute import exit_code


def results(stage, records):
    (table,) = tables(stage, records)
    return table


def texts(table):
    return [[cell.text for cell in row] for row in table.entries]


def test_outcomes_are_ordered_by_severity_and_told_once(run):
    rows = texts(outcomes(read_contents(run).records))
    assert [row[:4] for row in rows] == [
        ["failed", "check", "k64/sdpa", "sdpa"],
        ["oom", "bench", "k256", "eager"],
        ["unsupported", "bench", "k256", "a"],
    ]


def test_a_failure_of_a_whole_cell_is_not_lost(tmp_path):
    """Only a repetition is left out: a cell that failed without any subject still has its row."""
    run = begin(tmp_path)
    lost = Measurement(metric="x", value=None, unit="", status="timeout", reason="over 60 s")
    append(run, "bench", "k1", lost)
    assert texts(outcomes(read_contents(run).records)) == [
        ["timeout", "bench", "k1", "", "over 60 s"]
    ]


def test_stages_are_shown_as_they_ended(run):
    contents = read_contents(run, planned=["host", "quality"])
    shown = {row[0]: row[1:] for row in texts(stage_endings(contents.stages))}
    assert shown["host"][:2] == ["ok", "1 ok"]
    assert shown["check"] == ["failed", "1 failed, 3 ok", "5", "1 of 4 cells failed"]
    assert shown["bench"][:3] == ["unfinished", "1 oom, 1 ok", "2.500"]
    assert shown["quality"] == ["unfinished", "none", "—", ""]


def test_verdict_counts_failures_and_names_what_is_unfinished(run):
    assert judge(read_contents(run).stages) == ("failed", "1 failed; unfinished: bench")


def test_verdict_holds_only_when_every_stage_is_done(tmp_path):
    run = begin(tmp_path)
    assert judge(read_contents(run).stages)[0] == "unfinished"
    append(run, "bench", "k1", latency("sdpa", [1.0, 2.0]))
    assert judge(read_contents(run).stages) == ("unfinished", "unfinished: bench")
    end(run, "bench")
    assert judge(read_contents(run).stages) == ("ok", "passed")
    assert judge(read_contents(run, planned=["check"]).stages)[0] == "unfinished"


def test_a_run_that_skipped_everything_does_not_hold(tmp_path):
    run = begin(tmp_path)
    append(run, "bench", "k1", latency("sdpa", [], status="skipped", reason="no torch here"))
    end(run, "bench")
    skipped = "stage bench skipped: 1 of 1 cells: no torch here"
    verdict = ("unfinished", f"nothing was measured, with 1 skipped; {skipped}")
    assert judge(read_contents(run).stages) == verdict


def test_a_stage_that_was_skipped_entirely_is_incomplete(tmp_path):
    """Beside gates that passed, 57 of 57 trainings had no device: "passed, with 60 skipped"."""
    run, none = begin(tmp_path), {"value": None, "status": "skipped", "reason": "no device"}
    append(run, "host", "peaks", measured("copy_bandwidth", unit="GB/s", subject="c", **none))
    append(run, "models", "family", measured("step", 1.0, "nats", "GPT2"))
    for seed in (0, 1):
        cell = f"GPT2/s{seed}"
        append(run, "train", cell, measured("final_val_loss", unit="nats", subject="GPT2", **none))
    for name in ("host", "models", "train"):
        end(run, name)
    contents = read_contents(run)
    words = "never trained: 2 of 2 cells: no device"
    assert judge(contents.stages) == ("unfinished", words)
    shown = answer(contents.records, run=contents.run, stages=contents.stages)
    assert (shown.word, shown.lines[0]) == ("INCOMPLETE", f"INCOMPLETE  quickstart: {words}")
    stages = [SimpleNamespace(name=name, fails_on=()) for name in ("host", "models", "train")]
    assert exit_code(contents.records, stages) == 3
    append(run, "train", "GPT2/s1", measured("final_val_loss", 3.0, "nats", "GPT2"), attempt=2)
    contents = read_contents(run)
    assert judge(contents.stages)[1].endswith("never trained: 1 of 2 cells: no device")
    shown = answer(contents.records, run=contents.run, stages=contents.stages)
    assert shown.lines[0] == "quickstart: never trained: 1 of 2 cells: no device"
    assert exit_code(contents.records, stages) == 0


def test_an_extra_that_is_not_for_this_machine_skips_no_stage(tmp_path):
    """A kernel for a GPU beside one that was timed, in a cell and in a suite."""
    run = begin(tmp_path)
    absent = {"status": "unsupported", "reason": "for a GPU"}
    append(run, "suite", "a", latency("a", [], metric="masks", **absent))
    append(run, "suite", "sdpa", measured("masks", 0.1, "ratio", "sdpa"))
    append(run, "bench", "k1", checked("sdpa"), latency("sdpa", [1.0]), latency("a", [], **absent))
    for name in ("suite", "bench"):
        end(run, name)
    contents = read_contents(run)
    assert judge(contents.stages)[0] == "ok"
    stages = [SimpleNamespace(name=name, fails_on=()) for name in ("suite", "bench")]
    assert exit_code(contents.records, stages) == 0
    shown = answer(contents.records, run=contents.run, stages=contents.stages)
    assert shown.word == "PASS" and shown.lines[-1] == "NOT RUN  a: for a GPU"
    assert "skipped" not in str(shown)
    append(run, "bench", "k1", latency("sdpa", [], **absent), attempt=2)
    assert exit_code(read_contents(run).records, stages) == 3


def test_limits_alone_are_no_result(tmp_path):
    """A wrapper without its upstream was unsupported in every probe, and "holds" stood below."""
    run = begin(tmp_path)
    limits = Measurement(
        metric="limits", value=None, unit="", subject="mine", reason="float16 only"
    )
    append(run, "suite", "k1", limits, latency("mine", [], status="unsupported", reason="not here"))
    end(run, "suite")
    skipped = "stage suite skipped: 1 of 1 cells: not here"
    verdict = ("unfinished", f"nothing was measured, with 1 unsupported; {skipped}")
    assert judge(read_contents(run).stages) == verdict


def test_a_stage_without_time_for_any_result_does_not_hold(tmp_path):
    """Beside a host that was measured, every cell of bench had timed out: "holds", exit code 0."""
    run = begin(tmp_path)
    append(run, "host", "cpu", measured("copy_bandwidth", 1.0, "GB/s", "cpu"))
    append(run, "bench", "k1", latency("sdpa", [], status="timeout", reason="over 60 s"))
    for name in ("host", "bench"):
        end(run, name)
    contents = read_contents(run)
    assert judge(contents.stages) == (
        "failed",
        "ran out of time before anything was measured: bench",
    )
    stages = [SimpleNamespace(name=name, fails_on=("failed",)) for name in ("host", "bench")]
    assert exit_code(contents.records, stages) == 1
    append(run, "bench", "k2", latency("sdpa", [1.0, 2.0]))
    assert judge(read_contents(run).stages) == ("ok", "passed, with 1 timeout")


def test_a_subject_that_was_stopped_beside_others_is_missing(tmp_path):
    """Its comparison was asked for; beside a kernel that was timed the exit code was 0."""
    run = begin(tmp_path)
    stopped = latency("slow", [], status="timeout", reason="ran longer than 6 s (CELL_TIMEOUT_S)")
    append(run, "bench", "k1", checked("sdpa"), latency("sdpa", [1.0, 2.0]), stopped)
    end(run, "bench")
    contents, stages = read_contents(run), [SimpleNamespace(name="bench", fails_on=("failed",))]
    assert exit_code(contents.records, stages) == 3
    shown = answer(contents.records, run=contents.run, stages=contents.stages)
    assert shown.word == "INCOMPLETE"
    assert shown.lines[0] == "NOT RUN  slow: ran longer than 6 s (CELL_TIMEOUT_S)"
    append(run, "bench", "k2", latency("slow", [1.0, 2.0], 256))
    assert exit_code(read_contents(run).records, stages) == 0
    append(run, "bench", "k1", latency("slow", [], status="failed", reason="signal 11"), attempt=2)
    assert exit_code(read_contents(run).records, stages) == 1


def test_a_failed_stage_without_records_is_a_failure(tmp_path):
    run = begin(tmp_path)
    end(run, "bench", status="failed", reason="no implementation could be loaded")
    assert judge(read_contents(run).stages) == ("failed", "1 failed")


def test_results_show_median_quartiles_and_count(run):
    table = results("bench", read_contents(run).records)
    assert table.columns == ("workload", "subject", "latency_ms")
    first = table.entries[0][2]
    assert (first.text, first.detail, first.value) == ("4", "3–6, n 3", 4.0)
    assert "perf_counter around the call" in table.note


def test_unknown_is_a_dash_with_its_reason(run):
    table = results("bench", read_contents(run).records)
    [lost] = [row[2] for row in table.entries if row[1].text == "eager" and "k256" in row[0].text]
    assert (lost.text, lost.value, lost.hint) == ("—", None, "16 GiB wanted, 7 GiB free")
    assert lost.hint in table.reasons


def test_a_crash_explains_every_value_its_subject_lacks(tmp_path):
    """A crashed subject leaves one record, called like its probe; that is no column of its own."""
    run = begin(tmp_path)
    crash = latency("eager", [], metric="latency", unit="", status="failed", reason="signal 11")
    append(run, "bench", "k128", crash, latency("sdpa", [1.0, 2.0]))
    table = results("bench", read_contents(run).records)
    assert table.columns == ("workload", "subject", "latency_ms")
    lost = table.entries[0][2]
    assert (lost.text, lost.hint, lost.tone) == ("—", "signal 11", "failed")


def test_a_metric_that_is_unknown_everywhere_keeps_its_column(tmp_path):
    run = begin(tmp_path)
    append(run, "bench", "k1", latency("sdpa", [], metric="power_w", unit="W", reason="no NVML"))
    table = results("bench", read_contents(run).records)
    assert table.columns[2] == "power_w (W)"
    assert (table.entries[0][2].text, table.entries[0][2].hint) == ("—", "no NVML")


def test_measured_zero_is_not_a_dash(tmp_path):
    run = begin(tmp_path)
    exact = Measurement(metric="max_error_out", value=0.0, unit="abs", workload=workload())
    append(run, "check", "k1", exact)
    cell = results("check", read_contents(run).records).entries[0][2]
    assert (cell.text, cell.value) == ("0", 0.0)


def test_a_new_metric_of_a_new_stage_appears(tmp_path):
    run = begin(tmp_path)
    append(run, "quality", "k1", Measurement(metric="perplexity", value=17.25, unit="nats"))
    table = results("quality", read_contents(run).records)
    assert table.columns == ("cell", "subject", "perplexity (nats)")
    assert texts(table) == [["k1", "", "17.25"]]


def test_cell_seconds_are_counted_but_no_result(run):
    contents = read_contents(run)
    shown = [results(stage.name, contents.records) for stage in contents.stages]
    assert not any("cell_seconds" in column for table in shown for column in table.columns)


def test_no_record_is_lost_where_workload_and_subject_repeat(tmp_path):
    run = begin(tmp_path)
    append(run, "bench", "cold", latency("sdpa", [1.0, 2.0]))
    append(run, "bench", "warm", latency("sdpa", [3.0, 4.0]), latency("sdpa", [5.0, 6.0]))
    table = results("bench", read_contents(run).records)
    assert [(row[0], row[2]) for row in texts(table)] == [
        ("cold", "1.500"),
        ("warm", "3.500"),
        ("warm", "5.500"),
    ]


def test_superseded_attempts_are_not_shown(tmp_path):
    run = begin(tmp_path)
    lost = latency("sdpa", [], status="failed", reason="killed")
    append(run, "bench", "k128", lost)
    append(run, "bench", "k128", latency("sdpa", [5.0, 6.0, 7.0]), attempt=2)
    records = read_contents(run).records
    assert outcomes(records).rows == ()
    assert [row[2] for row in texts(results("bench", records))] == ["6"]


def test_provenance_traces_the_run(run):
    contents = read_contents(run)
    tables = {table.title: table for table in provenance(contents.run)}
    keys = {row[0].text: row[1] for row in tables["Fixed keys"].entries}
    assert (keys["dataset"].text, keys["dataset"].hint) == ("—", "no data set is read")
    assert len(tables["Sessions"].rows) == 2
    assert "assay study run" in tables["Sessions"].entries[0][3].text
    facts = {row[0].text: row[1] for row in tables["Machine and versions of sessions 1, 2"].entries}
    assert facts["versions: numpy"].text == "2.1.0"
    assert "8 GiB" in facts["devices: 0"].text
    assert (facts["ptxas"].text, facts["ptxas"].hint) == ("—", "no ptxas on the PATH")


def test_torn_bytes_are_reported(run):
    with run.log("bench").open("ab") as file:
        file.write(b'{"metric": "laten')
    [problem] = read_contents(run).problems
    assert "17 bytes" in problem and "stage bench" in problem


def test_a_log_that_lost_its_cells_is_no_finished_stage(run):
    """The report of such a run said PASS, for the cells that were left."""
    end(run, "bench")
    run.log("bench").write_bytes(b"")
    contents = read_contents(run)
    (problem,) = contents.problems
    assert "stage bench: DONE names cells without any record" in problem
    tone, words = judge(contents.stages)
    assert tone != "ok" and "unfinished: bench" in words


def test_an_unreadable_log_costs_only_its_stage(run):
    log = run.log("bench")
    log.write_bytes(log.read_bytes().replace(b'"unit"', b'"tinu"', 1))
    contents = read_contents(run)
    assert [s.status for s in contents.stages if s.name == "bench"] == ["unreadable"]
    assert judge(contents.stages) == ("failed", "2 failed")
    assert results("host", contents.records)


def test_cells_that_measure_different_things_are_listed_row_by_row(tmp_path):
    run = begin(tmp_path)
    for name in ("startup", "append", "query", "index"):
        measurement = latency(name, [1.0, 2.0, 3.0], metric=f"{name}_ms", workload=None)
        append(run, "spine", name, measurement)
    end(run, "spine")
    table = results("spine", read_contents(run).records)
    assert table.columns[:4] == ("cell", "subject", "metric", "value") and len(table.rows) == 4
    assert all(row[3].text != "—" for row in table.rows)
