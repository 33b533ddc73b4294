"""Options live in the files of their parts: a part from a user's folder brings its own."""

import json
from dataclasses import fields

import pytest

pytest.importorskip("torch")

import torch
from verbs.command_line import assay

from assay import plugins
from assay.correctness.models import tiny
from assay.correctness.models.examined_model import variant_model
from assay.correctness.models.selection import select
from assay.errors import BadInput
from assay.models.gpt2 import checkpoint, variants
from assay.models.gpt2.config import GPTConfig, RA_MLA_Config
from assay.models.gpt2.options import declared

LOUD = '''"""Attention's output through a narrow map, louder in some layers."""

from torch import nn

TAG = "LOUD"
SLOT = "output"
OPTIONS = {
    "loud_gain": {"default": 1.5, "between": (0, 4)},
    "loud_width": {"default": 64, "tiny": 6},
    "loud_layers": {"default": "all", "layers": True},
    "loud_mode": {"default": "plain", "choices": ("plain", "mean")},
}
VARIATIONS = ({"loud_mode": "mean"},)


def build(config, layer):
    return Loud(config)


class Loud(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gain, self.mode = config.loud_gain, config.loud_mode
        self.narrow = nn.Linear(config.n_head * config.head_dim, config.loud_width)
        self.wide = nn.Linear(config.loud_width, config.n_head * config.head_dim)

    def forward(self, attended, x):
        return self.gain * self.wide(self.narrow(attended))
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "loud.py").write_text(LOUD)
    return tmp_path / "mine"


@pytest.mark.parametrize("name", ["GPT2_LOUD", "GPT2_MLA_LOUD_KV"])
def test_a_configuration_has_the_options_of_the_variants_parts(folder, name):
    variant = variants.parse(name, [folder])
    kind = variants.config_class(variant)
    assert issubclass(kind, RA_MLA_Config if variant.latent else GPTConfig)
    assert kind is variants.config_class(variants.parse(name, [folder]))
    assert (kind().loud_gain, kind(loud_layers=(0, 2)).loud_layers) == (1.5, (0, 2))
    with pytest.raises(BadInput, match="loud_gain=9 is not between 0 and 4"):
        kind(loud_gain=9)
    with pytest.raises(BadInput, match="loud_mode='odd' is not one of plain, mean"):
        kind(loud_mode="odd")
    with pytest.raises(BadInput, match="loud_width=0 is not a whole number from 1"):
        kind(loud_width=0)
    assert not hasattr(GPTConfig(), "loud_gain")
    model = variants.model_class(variant)(tiny.config(kind))
    assert model(torch.zeros(1, 3, dtype=torch.int64))[0].shape == (1, 3, 61)


def test_the_options_of_a_name_reach_the_part(folder):
    name = "GPT2_LOUD+loud_gain=3.0+loud_width=128"
    (model,) = select([name], [folder]).models
    assert model.name == name
    assert model.options == {"loud_gain": 3.0, "loud_width": 128}
    part = variant_model(model.variant, model.options).make(0).h[0].attn.output
    assert (part.gain, part.narrow.out_features) == (3.0, 12)  # 128 of 64, where 6 stand for 64
    assert select(["GPT2_LOUD+loud_gain=1.5"], [folder]).models[0].name == "GPT2_LOUD"
    with pytest.raises(BadInput, match=r"'loud_volume=3' sets no option.*loud_gain"):
        select(["GPT2_LOUD+loud_volume=3"], [folder])
    with pytest.raises(BadInput, match="'loud_gain=3' sets no option"):
        select(["GPT2+loud_gain=3"], [folder])


def test_what_is_to_be_examined_is_in_the_groups(folder):
    names = [model.name for model in select(["pairs"], [folder]).models]
    assert {"GPT2_LOUD", "GPT2_LOUD+loud_mode=mean", "GPT2_MLA_LOUD_KV"} <= set(names)


def test_a_configuration_without_the_options_has_their_defaults(folder):
    variant = variants.parse("GPT2_LOUD", [folder])
    model = variants.model_class(variant)(tiny.config(GPTConfig))
    assert model.config.loud_width == 64 and model.config.n_embd == 16
    assert model.baseline().config == model.config


def test_a_checkpoint_keeps_them(folder, tmp_path):
    path = tmp_path / "model.safetensors"
    variant = variants.parse("GPT2_LOUD", [folder])
    kind = variants.config_class(variant)
    model = variants.model_class(variant)(tiny.config(kind, {"loud_gain": 2.5}))
    assert checkpoint.save(model, path).config["loud_gain"] == 2.5
    again = checkpoint.load(path, expect="GPT2_LOUD", folders=[folder])
    assert again.config == model.config and type(again) is type(model)
    idx = torch.zeros(1, 3, dtype=torch.int64)
    assert torch.equal(again(idx)[0], model(idx)[0])
    with pytest.raises(BadInput, match=r"loud_gain is 2\.5, wanted 1\.5"):
        checkpoint.load(path, folders=[folder], config=tiny.config(GPTConfig))
    with pytest.raises(BadInput, match="holds GPT2_LOUD, which is not known here"):
        checkpoint.load(path)


def test_the_list_shows_them_without_torch(folder, tmp_path):
    listed = assay("list", "parts", "--plugins", folder, "--json", cwd=tmp_path, hide=["torch"])
    rows = {row["name"]: row for row in map(json.loads, listed.stdout.splitlines())}
    assert rows["loud"]["options"]["loud_gain"] == 1.5
    assert rows["cross_token_gate"]["options"]["ct_mode"] == "topk"
    text = assay("list", "parts", "--plugins", folder, cwd=tmp_path).stdout
    assert "Options: loud_gain=1.5, loud_width=64, loud_layers=all, loud_mode=plain." in text


def test_the_list_goes_on_beside_a_declaration_that_cannot_be(folder, tmp_path):
    """One bad part of a user's folder once ended the list of all plugins half-way."""
    wrong = LOUD.replace('"loud_gain":', '"loud gain":')
    (folder / "loud.py").write_text(wrong)
    (folder / "other.py").write_text(
        '"""Attention."""\nOPTIONS = ["a"]\ndef attention(q, k, v, *, causal, scale): ...\n'
    )
    listed = assay("list", "--plugins", folder, "--json", cwd=tmp_path)
    rows = {row["name"]: row for row in map(json.loads, listed.stdout.splitlines())}
    assert listed.returncode == 0
    assert "the option 'loud gain' is declared as" in rows["loud"]["state"]
    assert rows["other"]["state"] == "ready" and rows["splice"]["options"]


@pytest.mark.parametrize(
    ("declared_as", "reason"),
    [
        ('{"ct_k": {"default": 3}}', r"the option ct_k, which .*cross_token_gate\.py has"),
        ('{"n_layer": {"default": 3}}', "the option n_layer, which every model has"),
        ('{"loud gain": {"default": 3}}', "'loud gain' is declared as"),
        ('{"loud_gain": {"tiny": 3}}', "'loud_gain' is declared as"),
        ('{"loud_gain": 3}', "wanted a name with"),
        ('{"loud_gain": {"default": 3, "between": (4, 5)}}', "not between 4 and 5"),
        ('{"loud_gain": {"default": None}}', "'loud_gain' is declared as"),
        ('["loud_gain"]', "wanted a dict of options by name"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(tmp_path, declared_as, reason):
    text = f'"""A part."""\nTAG = "LOUD"\nSLOT = "output"\nOPTIONS = {declared_as}\n'
    (tmp_path / "loud.py").write_text(text + "def build(config, layer): ...\n")
    with pytest.raises(BadInput, match=reason):
        variants.parts([tmp_path])


def test_both_configurations_have_every_option_of_the_packages_parts():
    """Scripts and checkpoints of all variants know one set of names."""
    options = {o.name: o for part in plugins.listing("parts").values() for o in declared(part)}
    latent = {name for name, option in options.items() if option.latent}
    assert {item.name for item in fields(RA_MLA_Config)} >= set(options)
    assert {item.name for item in fields(GPTConfig)} & set(options) == set(options) - latent
    assert latent == {"d_latent", "rope_theta"}


@pytest.mark.parametrize("part", plugins.listing("parts").values(), ids=lambda part: part.name)
def test_what_a_part_wants_examined_are_options_of_its_own(part):
    known = {option.name: option for option in declared(part)}
    for options in part.literals["VARIATIONS"]:
        for name, value in options.items():
            known[name].check(value)
            assert value != known[name].default
