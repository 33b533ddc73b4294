"""Examinations: the gates that run, what their findings say, and what they leave behind.

Wrong models for each gate, and sound ones, are in tests/planted.
"""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from planted import patches

from assay import plugins
from assay.correctness.models import user_models
from assay.correctness.models.examination import load_gates, run_gates
from assay.correctness.models.examined_model import variant_model
from assay.errors import BadInput

MODELS = Path(patches.__file__).parent / "models"


@pytest.fixture
def subject(tmp_path):
    def load(name="sound/nanogpt"):
        path = patches.PatchedFile(MODELS / f"{name}.py").write(tmp_path)
        (class_name,) = user_models.model_names(path)
        return user_models.load(path, class_name)

    return load


def test_all_gates_run_in_order_and_leave_the_random_state_alone(subject):
    before = torch.get_rng_state()
    findings = run_gates(subject())
    assert list(findings) == list(load_gates())
    assert torch.equal(before, torch.get_rng_state())


def test_every_gate_says_how_to_debug():
    gates = plugins.listing("gates").values()
    assert all(gate.literals["DEBUG"] and gate.literals["ORDER"] < 100 for gate in gates)


def test_a_gate_that_does_not_apply_says_why(subject):
    findings = run_gates(subject(), ["neutral", "gauge", "splice", "bytes"])
    assert {finding.status for finding in findings.values()} == {"unsupported"}
    reason = findings["bytes"].reason
    assert "no cache_bytes" in reason and "512 for each" in reason


def test_findings_give_numbers_and_the_mode(subject):
    leaky = subject("defects/ra_transposes_masked_scores")  # in training only
    finding = run_gates(leaky, ["causality"])["causality"]
    assert "in train mode" in finding.reason and "in eval mode" not in finding.reason
    assert finding.value > 1e-6 and finding.unit


def test_weights_of_a_codec_are_not_taken_for_a_hidden_cache():
    """A code of width 3 beside a batch of 3 was: the shape of a weight held the batch's number."""
    finding = run_gates(variant_model("GPT2_MLA_KV", {"splice_ratio": 0.25}), ["bytes"])["bytes"]
    assert finding.status == "ok", finding.reason


@pytest.mark.parametrize("name", ["running_mean_in_training", "ramp_in_a_buffer"])
def test_state_is_not_told_as_a_leak(subject, name):
    """A running mean in training made causality, logits and modes fail beside state."""
    findings = run_gates(subject(f"defects/{name}"))
    failed = [gate for gate, finding in findings.items() if finding.status == "failed"]
    assert failed == ["state"], {gate: findings[gate].reason for gate in failed}
    assert "put back, see state" in findings["causality"].reason


def test_a_leak_beside_state_is_told(subject, tmp_path):
    leaky = patches.PatchedFile(MODELS / "defects" / "running_mean_in_training.py").source
    path = tmp_path / "both.py"
    path.write_text(leaky.replace('att.masked_fill(~self.mask[:t, :t], float("-inf"))', "att"))
    both = user_models.load(path, user_models.model_names(path)[0])
    findings = run_gates(both, ["state", "causality"])
    assert {finding.status for finding in findings.values()} == {"failed"}
    assert "position" in findings["causality"].reason


@pytest.mark.parametrize(
    ("name", "gate", "module"),
    [
        ("later_layers_unmasked", "causality", "h.6.attn (Attention), before its call of c_proj"),
        ("convolution_padded_both_sides", "causality", "blocks.0.conv (Conv1d)"),
        ("batch_centred", "causality", "the model's own forward, before its call of lm_head"),
        ("last_layer_sees_next_token", "cached", "layers.3.heads (Heads)"),
        ("cache_mask_top_left", "cached", "transformer.h.0.attn (CausalSelfAttention), before"),
    ],
)
def test_the_first_module_that_differs_is_named(subject, name, gate, module):
    """Users were asked to bisect; the innermost module whose input is right and output wrong is
    named, or the one around it that gave a wrong input to the next."""
    finding = run_gates(subject(f"defects/{name}"), [gate])[gate]
    assert f"first to differ is {module}" in finding.reason, finding.reason


@pytest.mark.parametrize(
    ("name", "gate", "reason"),
    [
        ("weights_merged_in_decode", "state", "after an optimizer step logits in cached decode"),
        ("rounded_weights_kept", "state", "after an optimizer step logits in eval mode"),
        ("adapters_merged_by_each_eval", "state", "after a second eval() logits in eval mode"),
        ("views_are_the_same", "gradients", "8 of 14392 weights, but for rounding: h.0.attn.mix"),
        ("score_of_the_query_alone", "gradients", "but for rounding: h.0.attn.score.weight"),
        ("codes_beside_an_exact_copy", "bytes", "decoding reads what is not counted"),
        ("init_residuals_scaled_twice", "init", "scaled down twice by the root of the depth"),
        ("init_depth_in_the_wrong_place", "init", "attn.c_attn.weight starts with a spread of"),
    ],
)
def test_models_that_passed_every_gate_fail_one(subject, name, gate, reason):
    findings = run_gates(subject(f"defects/{name}"))
    failed = {name: each.reason for name, each in findings.items() if each.status == "failed"}
    assert list(failed) == [gate], failed
    assert reason in failed[gate]


@pytest.mark.parametrize(
    "name",
    [
        "merged_until_training",
        "weights_rounded_for_evaluation",
        "lora_merged_in_evaluation",
        "key_bias_of_its_own",
        "softmax_written_out",
        "init_divided_by_layers",
        "init_fixup",
    ],
)
def test_their_sound_twins_pass(subject, name):
    findings = run_gates(subject(f"sound/{name}"))
    assert not [each.reason for each in findings.values() if each.status == "failed"]


def test_a_mode_called_by_name_reaches_an_eval_of_the_models_own(subject, tmp_path):
    """A model was put into evaluation by train(False), which leaves an eval() of its own out."""
    sound = patches.PatchedFile(MODELS / "sound" / "attention_written_out.py").source
    path = tmp_path / "own_eval.py"
    folding = """\
    def eval(self):
        for block in self.h:
            block.mlp.c_fc.weight.data.mul_(block.ln_2.weight.data.exp())
        return super().eval()

    def get_num_params(self):
"""
    path.write_text(sound.replace("    def get_num_params(self):\n", folding))
    folded = user_models.load(path, user_models.model_names(path)[0])
    assert run_gates(folded, ["modes"])["modes"].status == "failed"


def test_an_unknown_gate_is_refused(subject):
    with pytest.raises(BadInput, match=r"no gate 'sharpness'; there are logits, step"):
        run_gates(subject(), ["sharpness"])


def test_a_gate_of_the_users_own(subject, tmp_path):
    (tmp_path / "small.py").write_text(
        '"""The model has few weights."""\n\n'
        "from assay.correctness.models.finding import failed, passed\n\n"
        "def examine(subject):\n"
        "    count = subject.make(0).get_num_params()\n"
        "    return (passed if count < 100 else failed)(f'{count} weights', value=count)\n"
    )
    finding = run_gates(subject(), ["small"], folders=[tmp_path])["small"]
    assert finding.status == "failed" and "weights" in finding.reason
