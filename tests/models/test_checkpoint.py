"""Checkpoints: what was saved comes back bit for bit, and what is anything else is refused."""

import json
import re
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_gpt2 import config, single_parts

from assay.correctness.models import tiny
from assay.errors import BadInput
from assay.models.gpt2 import checkpoint, variants, weights_file
from assay.models.gpt2.config import GPTConfig, RA_MLA_Config

OPTIONS = {
    "GPT2": {"mx_k": 2},  # of a part that it does not have
    "GPT2_RA": {"ra_layers": (0, 2)},
    "GPT2_MLA_KV2M": {"splice_transform": "spline", "splice_layers": "last:2"},
    "GPT2_MLA_ROPE_RACT_MG_MX_MR": {"ct_mode": "entropy"},
}


def made(name, seed=0, **options):
    torch.manual_seed(seed)
    variant = variants.parse(name)
    config = replace(tiny.config(variants.config_class(variant)), **options)
    model = variants.model_class(variant)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def mixed_dtypes():
    model = made("GPT2")
    model.h[0].double()
    return model


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    checkpoint.save(made("GPT2_MLA_KV"), path)
    return path


def rewritten(path, *, tensors=None, **metadata):
    """The file with other tensors or other entries of its metadata; None leaves an entry out."""
    before = json.loads(path.read_bytes()[8:][: int.from_bytes(path.read_bytes()[:8], "little")])
    entries = {**before["__metadata__"], **metadata}
    kept = {name: value for name, value in entries.items() if value is not None}
    save_file(load_file(path) if tensors is None else tensors, path, metadata=kept)
    return path


def refusal(path, **options):
    with pytest.raises(BadInput) as caught:
        checkpoint.load(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_model_comes_back_bit_for_bit(name, dtype, tmp_path):
    model = made(name, **OPTIONS[name]).to(dtype)
    path = tmp_path / "model.safetensors"
    checkpoint.save(model, path)
    draws = torch.random.get_rng_state()
    again = checkpoint.load(path, expect=name, config=model.config)
    assert torch.equal(torch.random.get_rng_state(), draws)
    assert type(again) is type(model) and again.config == model.config
    assert again.state_dict().keys() == model.state_dict().keys()
    for key, value in model.state_dict().items():
        assert value.dtype == again.state_dict()[key].dtype
        assert torch.equal(value, again.state_dict()[key])
    idx = torch.randint(61, (2, 9))
    assert torch.equal(model.eval()(idx)[0], again.eval()(idx)[0])


def test_the_identity_says_whose_weights_they_are(tmp_path):
    model = made("GPT2_MLA_KV2M")
    identity = checkpoint.save(model, tmp_path / "a", step=7, losses=[2.5, None], note="näher")
    assert identity == checkpoint.identity(tmp_path / "a")
    assert identity.variant == "GPT2_MLA_KV2M" and identity.dtype == "float32"
    assert identity.parameters == model.get_num_params()
    assert identity.config["splice_ratio"] == 0.5 and identity.config["n_layers"] == 4
    assert identity.extra == {"step": 7, "losses": [2.5, None], "note": "näher"}
    assert checkpoint.save(model, tmp_path / "b").digest == identity.digest
    assert checkpoint.save(made("GPT2_MLA_KV2M", seed=1), tmp_path / "b").digest != identity.digest


def test_the_identity_is_read_from_the_header_alone(saved):
    length = int.from_bytes(saved.read_bytes()[:8], "little")
    with open(saved, "r+b") as file:
        file.seek(8 + length)
        file.write(b"\xff" * 64)
    assert checkpoint.identity(saved).variant == "GPT2_MLA_KV"
    assert "was changed after it was written" in refusal(saved)


@pytest.mark.parametrize("expect", ["GPT2_MLA", variants.model_class("GPT2_MLA")])
def test_another_variant_is_refused_by_name(saved, expect):
    message = refusal(saved, expect=expect)
    assert "holds GPT2_MLA_KV" in message and "wanted GPT2_MLA;" in message


def test_a_variant_is_expected_by_any_spelling_of_its_name(saved):
    assert checkpoint.load(saved, expect="GPT2_KV_MLA").variant.name == "GPT2_MLA_KV"
    with pytest.raises(BadInput, match="no variant"):
        checkpoint.load(saved, expect=torch.nn.Linear)
    with pytest.raises(BadInput, match="no part"):
        checkpoint.load(saved, expect="GPT2_NOPE")


def test_another_configuration_is_refused_field_by_field(saved):
    config = replace(tiny.config(RA_MLA_Config), n_layers=2, splice_ratio=0.25)
    message = refusal(saved, config=config)
    assert "n_layers is 4, wanted 2; splice_ratio is 0.5, wanted 0.25." in message
    assert "wanted a GPTConfig" in refusal(saved, config=tiny.config(GPTConfig))


def test_a_configuration_that_says_too_little_or_too_much_is_refused(saved):
    config = dict(checkpoint.identity(saved).config)
    del config["splice_norm"]
    rewritten(saved, config=json.dumps(config))
    assert "splice_norm is not given" in refusal(saved)
    whole = checkpoint.load(saved, config=tiny.config(RA_MLA_Config))
    assert whole.config.splice_norm is False
    rewritten(saved, config=json.dumps({**config, "splice_norm": False, "warp": 9}))
    assert "warp is not an option of RA_MLA_Config" in refusal(saved)
    rewritten(saved, config=json.dumps({**config, "splice_norm": False, "ct_mode": "loud"}))
    assert "no model has" in refusal(saved)


@pytest.mark.parametrize("size", ["d_model", "n_layers", "mlp_width", "block_size", "d_latent"])
@pytest.mark.parametrize("value", [1 << 20, 1 << 40, 10**30])
def test_a_size_beyond_the_file_takes_no_memory(saved, size, value):
    """Found by the campaign: it asked for 137 GB."""
    config = {**checkpoint.identity(saved).config, size: value}
    message = refusal(rewritten(saved, config=json.dumps(config)))
    assert re.search(r"numbers and the configuration of a model of|no model has", message)


def test_every_part_of_ours_can_be_counted_without_memory():
    """Else a size beyond the file would go by: only a user's part may look at values."""
    for name in single_parts():
        kind = variants.model_class(variants.parse(name))
        with torch.device("meta"):
            counted = kind(config(name))
        made = kind(config(name))
        assert [p.shape for p in counted.parameters()] == [p.shape for p in made.parameters()]


@pytest.mark.parametrize("seen", ["missing", "unexpected", "shape", "dtype"])
def test_wrong_tensors_are_listed_and_nothing_is_loaded(saved, seen):
    tensors = load_file(saved)
    name = "h.0.ln_1.weight"
    if seen == "missing":
        del tensors[name]
    if seen == "unexpected":
        tensors["h.9.extra"] = torch.zeros(3)
    if seen == "shape":
        tensors[name] = tensors[name][:-1].clone()
    if seen == "dtype":
        tensors[name] = tensors[name].double()
    message = refusal(rewritten(saved, tensors=tensors))
    wanted = {
        "missing": f"{name} is missing",
        "unexpected": "h.9.extra is unexpected",
        "shape": f"{name} is float32 [15], wanted float32 [16]",
        "dtype": f"{name} is float64 [16], wanted float32 [16]",
    }[seen]
    assert wanted in message and "Nothing was loaded" in message


def test_long_lists_are_cut(saved):
    message = refusal(rewritten(saved, tensors={"x": torch.zeros(1)}))
    assert message.count("is missing") == 12
    assert f"and {len(made('GPT2_MLA_KV').state_dict()) - 12 + 1} more" in message


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"format": None}, "of another program"),
        ({"format": "pt"}, "its format is 'pt'"),
        ({"version": "2"}, "version 2, this assay reads version 1"),
        ({"variant": None}, "does not say whose weights"),
        ({"config": "{"}, "does not say whose weights"),
        ({"parameters": '"many"'}, "does not say whose weights"),
        ({"parameters": "5"}, "it says 5 parameters"),
        ({"variant": '"GPT2_MLA_WARP"'}, "holds GPT2_MLA_WARP, which is not known here"),
        ({"dtype": '"load"'}, "dtype 'load' is none of"),
        ({"dtype": '"int64"'}, "dtype 'int64' is none of"),
    ],
)
def test_a_foreign_or_torn_identity_is_refused(saved, entries, message):
    assert message in refusal(rewritten(saved, **entries))


@pytest.mark.parametrize("kept", [0, 4, 100, 3000, -1])
def test_a_file_that_is_cut_short_is_refused(saved, kept):
    saved.write_bytes(saved.read_bytes()[:kept])
    assert "not a whole safetensors file" in refusal(saved)


def test_a_pickle_is_never_opened(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"weight": torch.zeros(2)}, path)
    assert "could run code and is not opened" in refusal(path)


def test_no_file_and_a_folder_are_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "none")
    assert "directory" in refusal(tmp_path).lower()


def test_writing_replaces_the_whole_file_or_nothing(saved, monkeypatch):
    before = saved.read_bytes()

    def torn(tensors, path, metadata):
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weights_file, "save_file", torn)
    with pytest.raises(BadInput, match="the disk is full"):
        checkpoint.save(made("GPT2"), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_shared_weights_are_kept_once_and_listed(tmp_path):
    model = made("GPT2")
    model.h[1].ln_1 = model.h[0].ln_1
    identity = checkpoint.save(model, tmp_path / "a")
    assert identity.tied == {f"h.1.ln_1.{name}": f"h.0.ln_1.{name}" for name in ("weight", "bias")}
    assert "h.1.ln_1.weight" not in load_file(tmp_path / "a")
    message = refusal(tmp_path / "a", expect="GPT2")
    assert "h.1.ln_1.weight shares the tensor of h.0.ln_1.weight, wanted that of None" in message


@pytest.mark.parametrize(
    "model, extra, message",
    [
        (torch.nn.Linear(2, 2), {}, "has no `variant` and `config`"),
        (made("GPT2"), {"loss": float("nan")}, "finite numbers"),
        (made("GPT2"), {"when": object()}, "cannot be written as JSON"),
        (mixed_dtypes(), {}, "float32 and float64"),
    ],
)
def test_what_cannot_be_saved_is_refused(model, extra, message, tmp_path):
    with pytest.raises(BadInput, match=message):
        checkpoint.save(model, tmp_path / "a", **extra)
    with pytest.raises(BadInput, match="cannot write"):
        checkpoint.save(made("GPT2"), tmp_path / "none" / "model.safetensors")
    assert not list(tmp_path.iterdir())
