"""`assay law` as a user meets it: tables, JSON, the thresholds file and refusals in words."""

import json
import re

import pytest
from command_line import assay
from laws.law_records import LENGTHS, eager, flash, record, timed, workload, write_run

from assay.errors import BadInput, CannotRunHere
from assay.verbs.law import law


def peaks(subject, value_at, metric="forward_peak_bytes"):
    return [record(metric, value_at(s), subject=subject, workload=workload(s)) for s in LENGTHS]


@pytest.fixture
def results(tmp_path):
    observed = record(
        "oom_length", 27000.0, unit="tokens", stage="limits", workload=workload(128, batch=1)
    )
    bench = [
        *timed("eager", eager),
        *timed("flash", flash),
        *peaks("eager", lambda s: 192.0 * s * s + 8192 * s),
        *peaks("flash", lambda s: 8320.0 * s),
        observed,
    ]
    write_run(tmp_path / "results", bench)
    return tmp_path / "results"


def test_tables_of_the_newest_run_with_a_bench(results, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    write_run(results, [record(stage="check", value=1.0)], name="20990101T000000Z-ffff")
    law(out=results)
    shown, noted = capsys.readouterr()
    assert noted.startswith(f"laws of {results}") and "20990101" not in noted
    assert re.match(r"32/8 heads x 128, .*: use eager below 1,\d+ tokens, flash from ", shown)
    output = " ".join(shown.split())
    assert "Growth with length" in output and "1.9" in output and "quadratic" in output
    assert "overtakes at 1," in output
    assert "Length at which memory runs out" in output and "27,000" in output
    assert "use eager below 1," in output and "on A GPU" in output


def test_json_has_a_line_for_each_law(results, capsys):
    law(out=results, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["law"] for line in lines} == {
        "exponent", "crossover", "oom_length", "recommendation",
    }  # fmt: skip
    tiled = next(line for line in lines if line["law"] == "exponent" and line["subject"] == "flash")
    crossing = next(line for line in lines if line["law"] == "crossover")["crossings"][0]
    assert crossing["length"] == pytest.approx(1100, rel=0.03)
    assert tiled["shares"] == {"linear": pytest.approx(1.0)} or tiled["metric"] == "latency_ms"
    limit = next(
        line for line in lines if line["law"] == "oom_length" and line["subject"] == "eager"
    )
    assert limit["observed"] == 27000 and limit["difference"] is not None


def test_one_metric_and_another_peer(results, capsys):
    law(out=results, metric="latency_ms", versus="flash", as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["metric"] for line in lines if "metric" in line} == {"latency_ms"}
    assert [line["against"] for line in lines if line["law"] == "crossover"] == ["flash"]


def test_runs_of_two_hosts_are_told_apart(results, tmp_path, capsys):
    (first,) = (results / "bench").iterdir()
    law([first])
    assert "elsewhere" not in capsys.readouterr().out
    other = [*timed("eager", eager, host="elsewhere"), *timed("flash", flash, host="elsewhere")]
    second = write_run(results, other, host="elsewhere", name="20250102T000000Z-abcd")
    law([first, second], thresholds=tmp_path / "thresholds.json")
    output = capsys.readouterr().out
    # Curves and crossings; only the first run has peaks, so that table needs no host.
    assert output.count("deadbeef00000000") == 4 + 1 and output.count("elsewhere") == 2 + 1
    assert len(json.loads((tmp_path / "thresholds.json").read_text())["hosts"]) == 2


def test_the_thresholds_file(results, tmp_path, capsys):
    law(out=results, thresholds=tmp_path / "thresholds.json")
    assert "thresholds: " in capsys.readouterr().out
    (host,) = json.loads((tmp_path / "thresholds.json").read_text())["hosts"].values()
    assert [choice["use"] for choice in host["classes"][0]["choices"]] == ["eager", "flash"]


def test_no_thresholds_without_a_recommendation(tmp_path):
    run = write_run(tmp_path / "results", peaks("eager", lambda s: 1.0 * s))
    with pytest.raises(CannotRunHere, match="recommend nothing"):
        law([run], thresholds=tmp_path / "thresholds.json")
    assert not (tmp_path / "thresholds.json").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"versus": "flsh"}, "--vs flsh is not in these records, which hold eager, flash"),
        ({"metric": "speed"}, "--metric speed is not in these records"),
    ],
)
def test_what_the_records_do_not_hold_is_refused(results, flags, words):
    with pytest.raises(BadInput, match=words):
        law(out=results, **flags)


def test_runs_without_a_bench_are_refused(tmp_path):
    write_run(tmp_path / "results", [record(stage="check", value=1.0)])
    with pytest.raises(BadInput, match="has a bench stage"):
        law(out=tmp_path / "results")


def test_exit_codes_and_messages(tmp_path):
    """On the command line: 2 for what is no run, 3 for records with nothing to fit."""
    done = assay("law", ".", cwd=tmp_path)
    assert done.returncode == 2 and "not the folder of a run" in done.stderr
    run = write_run(tmp_path / "results", timed("eager", eager, lengths=(256,)))
    done = assay("law", run, cwd=tmp_path)
    assert done.returncode == 3 and "nothing to fit: 1 length measured" in done.stderr
