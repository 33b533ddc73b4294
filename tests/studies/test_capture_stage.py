"""A study that captures first and measures what it captured, whose cells are not known before."""

import json
import os
from pathlib import Path

import pytest
from verbs.command_line import assay

pytest.importorskip("transformers")

from assay.captures.store import Store
from assay.errors import BadInput, CannotRunHere
from assay.studies.stages.capture import TextCapture, capture_once

SETTINGS = {
    "STAGES": "capture,check",
    "STUDY": "mine",
    "CAPTURE_MODEL": "random:llama",
    "CAPTURE_TO": "store",
    "CAPTURE_TOKENS": "12",
    "CAPTURE_DECODE": "2",
    "WORKLOADS": "captured:store#layer=1",
    "IMPLEMENTATIONS": "sdpa",
    "PROBES": "accuracy,replayed",
    "DEVICE_CPU": "y",
}


def study(folder, *arguments, **changes):
    settings = {**SETTINGS, **changes}
    sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    ended = assay("study", "run", *sets, "--json", *arguments, cwd=folder)
    return ended, [json.loads(line) for line in ended.stdout.splitlines()]


def of(records, stage):
    return [record for record in records if record["stage"] == stage]


def test_what_is_captured_is_planned_and_measured_in_the_same_run(tmp_path):
    ended, records = study(tmp_path)
    assert ended.returncode == 0, ended.stderr
    metrics = {r["metric"]: r["value"] for r in of(records, "capture")}
    assert metrics["captured_records"] > 0 and metrics["dropped_records"] == 0
    replayed = [r for r in of(records, "check") if r["metric"] == "replayed_differences"]
    assert [r["value"] for r in replayed] == [0, 0, 0]  # the prompt and two decoded tokens
    lengths = [
        (r["workload"]["spec"]["query_length"], r["workload"]["spec"]["key_length"])
        for r in replayed
    ]
    assert lengths == [(12, 12), (1, 13), (1, 14)]


def test_a_model_that_is_not_there_fails_the_stage_and_nothing_is_measured(tmp_path):
    ended, records = study(tmp_path, CAPTURE_MODEL="nothing")
    assert ended.returncode == 2 and not of(records, "check")
    assert "there is no model 'nothing'" in of(records, "capture")[0]["reason"]


def request(folder, **changes):
    settings = {"model": "random:llama", "to": folder / "store", "tokens": 12, "decode": 1}
    return TextCapture(**{**settings, **changes})


def test_a_capture_is_made_once_and_again_where_it_was_interrupted(tmp_path):
    first = capture_once(request(tmp_path))
    manifest = tmp_path / "store" / "manifest.jsonl"
    written = manifest.read_text()
    assert capture_once(request(tmp_path)) == first and manifest.read_text() == written
    with pytest.raises(BadInput, match="a capture with other settings"):
        capture_once(request(tmp_path, tokens=11))
    assert manifest.read_text() == written  # what is there is never lost to other settings

    torn = "".join(written.splitlines(keepends=True)[:-2])  # without its end
    manifest.write_text(torn)
    with pytest.raises(BadInput, match="began and has not ended"):  # this process still runs
        capture_once(request(tmp_path))
    manifest.write_text(torn.replace(f'"pid":{os.getpid()}', '"pid":999999999'))
    assert capture_once(request(tmp_path)).records == first.records
    store = Store.open(tmp_path / "store")
    assert all(store.read(record) for record in store.manifest().records)


@pytest.mark.parametrize(
    "changes, error, reason",
    [
        ({"model": "no-such-model"}, BadInput, "there is no model 'no-such-model'"),
        ({"model": "random:nothing"}, BadInput, "random:llama"),
        ({"text": "no.txt"}, BadInput, "cannot read the text no.txt"),
        ({"text": "binary"}, BadInput, "is not UTF-8"),
        ({"text": "short.txt"}, BadInput, "short.txt has 5 tokens, 12 were asked for"),
        ({"tokens": 1 << 20}, BadInput, "ask for fewer tokens"),
        ({"dtype": "float8"}, BadInput, "float8"),
        ({"device": "cuda:63"}, CannotRunHere, "no device 'cuda:63'"),
    ],
)
def test_what_cannot_be_captured_is_refused(tmp_path, monkeypatch, changes, error, reason):
    monkeypatch.chdir(tmp_path)
    Path("short.txt").write_text("short")
    Path("binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(error, match=reason):
        capture_once(request(tmp_path, **changes))
    assert not (tmp_path / "store").exists()


def test_a_text_longer_than_the_positions_of_a_model_is_refused(tmp_path):
    with pytest.raises(BadInput, match="has 2048 positions"):
        capture_once(request(tmp_path, tokens=3000))


@pytest.mark.slow
def test_a_study_that_does_not_capture(tmp_path):
    """Neither its stage nor a program in one of its processes."""
    kernel = tmp_path / "mine.py"
    kernel.write_text(
        '"""A test."""\nfrom pathlib import Path\n\n'
        "from assay.attention.sequence.sdpa import attention\n"
        "from assay.captures.switched_off import switched_on\n\n"
        "Path(__file__).with_suffix('.txt').write_text(str(switched_on()))\n"
    )
    changes = {"WORKLOADS": "b1_h2_s9_d16", "IMPLEMENTATIONS": str(kernel), "PROBES": "accuracy"}
    ended, records = study(tmp_path, CAPTURE="n", **changes)
    assert ended.returncode == 0, ended.stderr
    assert not of(records, "capture") and of(records, "check")
    assert not (tmp_path / "store").exists()
    assert kernel.with_suffix(".txt").read_text() == "False"
    without, _ = study(tmp_path, CAPTURE="n")
    assert without.returncode == 2 and "store" in without.stderr
