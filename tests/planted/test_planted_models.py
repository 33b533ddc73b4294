"""Broken GPT-2 models are caught by the right gate, for the right reason; sound ones pass all.

Each file in `models/defects` names the sound model it patches, the gates that may see the defect
and words of which the reason holds one (see patches.py); whoever wrote them had not seen the gates.
Of the defects of each gate the first and every sixth are in `make test`, with only those gates; all
of them, with all gates, in `make test-full`.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")

import warm_commands
from new_process import environment
from patches import Defect, PatchedFile, defects, sound_files

from assay import plugins
from assay.correctness.models import user_models
from assay.correctness.models.examination import run_gates

MODELS = Path(__file__).parent / "models"
DEFECTS = defects(MODELS / "defects")
GATES = sorted({defect.caught_by[0] for defect in DEFECTS})
SOME = [d for gate in GATES for d in [d for d in DEFECTS if d.caught_by[0] == gate][::6]]
SOUND = sound_files(MODELS / "sound")


def failures(path: Path, gates: Sequence[str] | None = None) -> dict[str, str]:
    """Reasons by gate."""
    (name,) = user_models.model_names(path)
    findings = run_gates(user_models.load(path, name), gates)
    return {gate: each.reason for gate, each in findings.items() if each.status == "failed"}


def assert_explained(defect: Defect, failed: dict[str, str]) -> None:
    reasons = {gate: failed[gate] for gate in defect.caught_by if gate in failed}
    assert reasons, f"{defect.planted}: caught by {list(failed) or 'none'}"
    assert defect.is_explained_by(" ".join(reasons.values())), f"{defect.cause}: {reasons}"


@pytest.mark.parametrize("defect", SOME, ids=lambda defect: defect.name)
def test_a_planted_defect_is_caught_and_explained(defect, tmp_path):
    assert_explained(defect, failures(defect.write(tmp_path), defect.caught_by))


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_it_is_caught_among_all_gates(defect, tmp_path):
    assert_explained(defect, failures(defect.write(tmp_path)))


@pytest.mark.sampled
@pytest.mark.parametrize("model", SOUND, ids=lambda model: model.name)
def test_a_sound_model_is_not_flagged(model, tmp_path):
    assert not failures(model.write(tmp_path))


def test_every_gate_has_a_defect_that_it_alone_is_expected_to_see():
    alone = {defect.caught_by[0] for defect in DEFECTS if len(defect.caught_by) == 1}
    assert alone == set(plugins.listing("gates"))


def test_a_sound_model_passes_through_the_command(tmp_path):
    path = PatchedFile(MODELS / "sound" / "nanogpt.py").write(tmp_path)
    command = ["check", "--models", str(path), "--json", "--out", "here"]
    done = warm_commands.run(command, cwd=tmp_path, env=environment(), timeout=280)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"logits", "cached"} <= {record["metric"] for record in records}
    assert not [record for record in records if record.get("cause")]
