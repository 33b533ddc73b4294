"""Every gate finds the error that was planted for it, and no gate finds one in a sound model."""

import gate_cases
import gate_models
import pytest

from assay import plugins
from assay.correctness.models import tiny
from assay.correctness.models.examination import load_gates, run_gates
from assay.correctness.models.examined_model import ExaminedModel
from assay.errors import BadInput
from assay.models.gpt2.config import GPTConfig


def subject(kind, name="GPT2_Tested"):
    config = tiny.config(GPTConfig)
    return ExaminedModel(name=name, build=kind, config=config)


@pytest.mark.parametrize("name", gate_cases.BROKEN)
def test_a_planted_error_is_found_by_its_gate(name):
    gate, kind = gate_cases.BROKEN[name]
    finding = run_gates(subject(kind), [gate])[gate]
    assert finding.status == "failed", finding
    assert finding.reason


@pytest.mark.parametrize("name", gate_cases.SOUND)
def test_a_sound_model_fails_no_gate(name):
    found = run_gates(subject(gate_cases.SOUND[name]))
    assert list(found) == list(load_gates())
    assert not {gate: finding for gate, finding in found.items() if finding.status == "failed"}


def test_every_gate_has_a_planted_error_and_says_how_to_debug():
    gates = plugins.listing("gates")
    assert {gate for gate, _ in gate_cases.BROKEN.values()} == set(gates)
    assert all(gate.literals["DEBUG"] and gate.literals["ORDER"] < 100 for gate in gates.values())


def test_a_gate_that_does_not_apply_says_why():
    found = run_gates(subject(gate_models.Model), ["neutral", "gauge", "splice", "bytes"])
    assert {finding.status for finding in found.values()} == {"unsupported"}
    assert "no cache_bytes" in found["bytes"].reason and "512 for each" in found["bytes"].reason


def test_a_model_that_cannot_be_built_fails_every_gate_and_names_the_exception():
    kind = gate_cases.BROKEN["cannot be built"][1]
    found = run_gates(subject(kind))
    assert {finding.status for finding in found.values()} == {"failed"}
    assert all("TypeError" in finding.reason for finding in found.values())


def test_findings_say_what_was_seen_in_numbers():
    finding = run_gates(
        subject(gate_cases.BROKEN["transposed after the mask, in training"][1]), ["causality"]
    )["causality"]
    assert "in train mode" in finding.reason and "in eval mode" not in finding.reason
    assert finding.value > 1e-6 and finding.unit


def test_examinations_leave_the_random_state_alone():
    import torch

    before = torch.get_rng_state()
    run_gates(subject(gate_models.Model))
    assert torch.equal(before, torch.get_rng_state())


def test_an_unknown_gate_is_refused():
    with pytest.raises(BadInput, match=r"no gate 'sharpness'; there are logits, step"):
        run_gates(subject(gate_models.Model), ["sharpness"])


def test_a_gate_of_the_users_own(tmp_path):
    (tmp_path / "small.py").write_text(
        '"""The model has few weights."""\n\n'
        "from assay.correctness.models.finding import failed, passed\n\n"
        "def examine(subject):\n"
        "    count = subject.make(0).get_num_params()\n"
        "    return (passed if count < 100 else failed)(f'{count} weights', value=count)\n"
    )
    found = run_gates(subject(gate_models.Model), ["small"], folders=[tmp_path])
    assert found["small"].status == "failed" and "weights" in found["small"].reason
