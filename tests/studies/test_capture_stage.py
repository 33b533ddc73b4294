"""A study that captures first and measures what it captured, whose cells are not known before."""

import json
import os

import pytest
from verbs.command_line import assay

pytest.importorskip("transformers")

from assay.captures.store import Store
from assay.errors import BadInput
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


def asked(folder, **changes):
    settings = {"model": "random:llama", "to": folder / "store", "tokens": 12, "decode": 1}
    return TextCapture(**{**settings, **changes})


def test_a_capture_is_made_once_and_again_where_it_was_interrupted(tmp_path):
    first = capture_once(asked(tmp_path))
    manifest = tmp_path / "store" / "manifest.jsonl"
    written = manifest.read_text()
    assert capture_once(asked(tmp_path)) == first and manifest.read_text() == written
    with pytest.raises(BadInput, match="a capture with other settings"):
        capture_once(asked(tmp_path, tokens=11))
    assert manifest.read_text() == written  # what is there is never lost to other settings

    torn = "".join(written.splitlines(keepends=True)[:-2])  # without its end
    manifest.write_text(torn)
    with pytest.raises(BadInput, match="began and has not ended"):  # this process still runs
        capture_once(asked(tmp_path))
    manifest.write_text(torn.replace(f'"pid":{os.getpid()}', '"pid":999999999'))
    assert capture_once(asked(tmp_path)).records == first.records
    store = Store.open(tmp_path / "store")
    assert all(store.read(record) for record in store.manifest().records)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"text": "no.txt"}, "cannot read the text no.txt"),
        ({"tokens": 1 << 20}, "ask for fewer tokens"),
        ({"model": "random:nothing"}, "random:llama"),
        ({"dtype": "float8"}, "float8"),
    ],
)
def test_what_cannot_be_captured_says_why(tmp_path, changes, said):
    with pytest.raises(BadInput, match=said):
        capture_once(asked(tmp_path, **changes))
    assert not (tmp_path / "store").exists()
