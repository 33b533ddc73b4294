"""Mirrors against the real trackers, offline: what they stored is what the records say."""

import json

import pytest
from made_records import record
from mirror_process import Place, new_place
from mirrored_run import write
from stored_points import (
    recorded_curves,
    recorded_rest,
    trackio_curves,
    trackio_rest,
    trackio_rows,
    wandb_curves,
    wandb_rest,
    wandb_runs,
)

from assay import plugins
from assay.instruments.telemetry import UNITS
from assay.records.schema import DEVICE_READINGS

TRACKERS = tuple(plugins.listing("mirrors"))
CHECKED = [
    record(stage="check", metric="accuracy", value=0.5, cell="b1", subject="eager"),
    record(stage="check", metric="accuracy", value=None, cell="b1", subject="sdpa", status="failed",
           reason="off by 3"),
]  # fmt: skip


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory) -> Place:
    """A run with two trained cells and a stage that trains nothing, mirrored to all trackers."""
    place = new_place(tmp_path_factory.mktemp("mirrored"), check=[CHECKED[:1], CHECKED[1:]])
    write(place.run, 6)
    done = place.mirror("--to", ",".join(TRACKERS))
    assert done.returncode == 0, done.stderr
    return place


def test_every_value_is_in_wandb_once(mirrored):
    curves = recorded_curves(mirrored.run)
    assert len(curves) == 2 * (6 * 2 + 2) and set(curves.values()) == {1}
    assert wandb_curves(mirrored.run.path) == curves
    rest = {cell: v for cell, v in wandb_rest(mirrored.run.path).items() if cell}
    assert rest == recorded_rest(mirrored.run)
    assert all(values["grad_norm.reason"] == "it is not finite" for values in rest.values())


def test_every_value_is_in_trackio_once(mirrored):
    assert trackio_curves(mirrored.trackio) == recorded_curves(mirrored.run)
    assert trackio_rest(mirrored.trackio) == recorded_rest(mirrored.run)


def test_a_stage_without_steps_is_a_table(mirrored):
    (stored,) = [run for run in wandb_runs(mirrored.run.path).values() if not run.config["cell"]]
    (file,) = mirrored.run.path.glob(
        f"wandb/offline-run-*/files/{stored.summary['records']['path']}"
    )
    table = json.loads(file.read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    in_trackio = [
        row
        for cell, _, values in trackio_rows(mirrored.trackio)
        if cell == "check"
        for row in values["records"]["_value"]
    ]
    assert rows == in_trackio
    assert [(r["subject"], r["value"], r["status"], r["reason"]) for r in rows] == [
        ("eager", 0.5, "ok", None),
        ("sdpa", None, "failed", "off by 3"),
    ]


def test_the_configuration_is_there(mirrored):
    configs = [run.config for run in wandb_runs(mirrored.run.path).values()]
    assert sorted(c["seed"] for c in configs if c["cell"]) == [0, 1]
    assert all(c["SEED"] == 3 and c["STUDY"] == "small" for c in configs)


@pytest.mark.parametrize("tracker", TRACKERS)
def test_mirroring_again_stores_nothing(mirrored, tracker):
    before = wandb_curves(mirrored.run.path), sorted(map(str, trackio_rows(mirrored.trackio)))
    folders = sorted(mirrored.run.path.glob("wandb/offline-run-*"))
    assert mirrored.mirror("--to", tracker).returncode == 0
    assert (wandb_curves(mirrored.run.path), sorted(map(str, trackio_rows(mirrored.trackio)))) == (
        before
    )
    assert sorted(mirrored.run.path.glob("wandb/offline-run-*")) == folders


def test_a_torn_file_of_wandb_is_made_good(tmp_path):
    """A writer that is killed leaves half a frame: rows that were in it are sent again, others
    are not."""
    place = new_place(tmp_path)
    write(place.run, 6)
    assert place.mirror("--to", "wandb").returncode == 0
    for part, file in zip((0.4, 0.75), place.run.path.glob("wandb/offline-run-*/*.wandb")):
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * part)])
    missing = recorded_curves(place.run) - wandb_curves(place.run.path)
    assert missing, "the test must lose something"
    done = place.mirror("--to", "wandb")
    assert done.returncode == 0, done.stderr
    assert wandb_curves(place.run.path) == recorded_curves(place.run)
    assert wandb_rest(place.run.path) == recorded_rest(place.run)


def test_readings_of_a_device_are_those_of_the_telemetry():
    assert set(DEVICE_READINGS) == set(UNITS)
