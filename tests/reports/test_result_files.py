"""The JSON files: what they say can be computed again, and settings cannot pass for results."""

import json
import statistics

import numpy as np
import pytest
from build_run import append, begin, checked, end, latency, measured

from assay.reports.build import build

SAMPLES = [1.25, 1.5, 1.0, 2.75, 1.125, 1.375, 1.0625]


@pytest.fixture
def files(tmp_path):
    """The three files of a run whose configuration is named like results."""
    config = {"latency_ms": "666", "results": "667", "value": "668", "ROUNDS": "7"}
    run = begin(tmp_path / "run", config=config)
    for subject in ("eager", "sdpa"):
        append(run, "check", f"k128/{subject}", checked(subject))
    peak = measured("forward_peak_bytes", 4096.0, "B", "sdpa")
    ended = {"status": "oom", "reason": "16 GiB wanted"}
    gone = measured("latency+memory", None, "", "flex", **ended)
    unknown = latency("sdpa", [], metric="power_w", unit="W", reason="no NVML")
    eager = latency("eager", [2 * s for s in SAMPLES])
    append(run, "bench", "k128", gone, eager, latency("sdpa", SAMPLES), peak, unknown)
    end(run, "bench")
    built = build(run)
    assert {path.name for path in built.results} == {
        "performance_results.json",
        "memory_results.json",
        "correctness_results.json",
    }
    return {path.name.partition("_")[0]: json.loads(path.read_text()) for path in built.results}


def values(file, subject):
    [row] = [row for row in file["results"] if row["subject"] == subject]
    return {value["metric"]: value for value in row["values"]}


def test_statistics_follow_from_the_raw_samples(files):
    record = values(files["performance"], "sdpa")["latency_ms"]
    samples, computed = record["samples"], record["statistics"]
    assert samples == SAMPLES and computed["n"] == len(SAMPLES)
    assert computed["median"] == record["value"] == statistics.median(samples)
    assert computed["mean"] == pytest.approx(np.mean(samples))
    assert computed["std"] == pytest.approx(np.std(samples, ddof=1))
    assert (computed["min"], computed["max"]) == (min(samples), max(samples))
    for percent in (5, 25, 75, 95):
        assert computed[f"p{percent}"] == pytest.approx(np.percentile(samples, percent))


def test_ratios_follow_from_the_raw_samples(files):
    ours, theirs = (values(files["performance"], s)["latency_ms"] for s in ("sdpa", "eager"))
    rounds = [a / b for a, b in zip(ours["samples"], theirs["samples"], strict=True)]
    assert ours["ratio"]["against"] == "eager" and "ratio" not in theirs
    assert ours["ratio"]["value"] == statistics.median(rounds) == 0.5


def test_no_setting_can_shadow_a_result(files):
    """Settings called like a metric, a field or the list of results stay below `config`."""
    for file in files.values():
        assert set(file) == {
            "schema",
            "kind",
            "run",
            "study",
            "environment",
            "config",
            "results",
        }
        assert file["config"]["results"] == "667" and isinstance(file["results"], list)
        assert "66" not in json.dumps(file["results"])
    assert values(files["performance"], "sdpa")["latency_ms"]["value"] == 1.25


def test_unknown_is_null_with_a_reason_and_endings_are_rows(files):
    unknown = values(files["performance"], "sdpa")["power_w"]
    assert (unknown["value"], unknown["statistics"]) == (None, None)
    assert unknown["reason"] == "no NVML"
    for kind in ("performance", "memory"):
        [row] = [row for row in files[kind]["results"] if row["subject"] == "flex"]
        assert (row["status"], row["reason"]) == ("oom", "16 GiB wanted")
        assert all(value["value"] is None for value in row["values"])


def test_each_file_traces_its_run(files):
    for file in files.values():
        environment = file["environment"]
        assert environment["versions"] == {"python": "3.11.9", "numpy": "2.1.0"}
        assert (environment["commit"], environment["dirty"]) == ("0123456789abcdef0123", True)
        assert (
            environment["host"] == "deadbeef00000000"
            and environment["devices"][0]["name"] == "A CPU"
        )
        assert environment["commands"][0].startswith("assay study run")
        assert environment["unknown"]["ptxas"] == "no ptxas on the PATH"
    assert values(files["memory"], "sdpa")["forward_peak_bytes"]["value"] == 4096.0
    assert "error_over_budget_out" in values_of_all(files["correctness"])


def values_of_all(file):
    return {value["metric"] for row in file["results"] for value in row["values"]}


def test_a_file_without_rows_is_not_there(tmp_path):
    run = begin(tmp_path / "run")
    (run.path / "memory_results.json").write_text("of an earlier build")
    append(run, "check", "k128/sdpa", checked("sdpa"))
    built = build(run)
    assert [path.name for path in built.results] == ["correctness_results.json"]
    assert not (run.path / "memory_results.json").exists()


def test_the_summary_is_read_in_a_minute(tmp_path):
    run = begin(tmp_path / "run")
    for subject in ("eager", "sdpa"):
        append(run, "check", subject, checked(subject))
    gone = latency("flex", [], status="oom", reason="16 GiB wanted")
    append(run, "bench", "k", latency("eager", [2.0] * 6), latency("sdpa", [1.0] * 6), gone)
    end(run, "check")
    end(run, "bench")
    text = build(run).summary.read_text()
    for part in (
        "verdict: passed, with 1 oom",
        "machine: A CPU",
        "sdpa: 2.00x faster than eager (2.00 to 2.00) forward",
        "stage bench: ok",
        "- oom: bench flex at k: 16 GiB wanted",
        "report.html",
    ):
        assert part in text, part
    assert max(map(len, text.splitlines())) <= 140 and len(text.splitlines()) < 60
