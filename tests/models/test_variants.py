"""Names, parts, parameter counts and bytes of the GPT-2 family."""

import pytest

pytest.importorskip("torch")

import torch
from tiny_gpt2 import make, tokens

from assay import plugins
from assay.errors import BadInput
from assay.models.gpt2 import variants
from assay.models.gpt2.config import GPTConfig, RA_MLA_Config

# Parameters of published models of these names at 124M size, by instantiating them, with their
# vocabulary of 50257; bytes of a token in one layer in half precision.
PUBLISHED = {
    "GPT2": (124_475_904, 3072),
    "GPT2_RA": (124_475_904, 3072),
    "GPT2_MLA": (117_364_992, 512),
    "GPT2_MLA_RA": (112_646_400, 512),
    "GPT2_MLA_RA_KV": (113_438_976, 256),
    "GPT2_MLA_KV2": (121_312_512, 512),
    "GPT2_MLA_KV2M": (73_309_440, 512),
    "GPT2_MLA_RA_KVM": (65_435_904, 256),
    "GPT2_GATE": (131_563_008, 3072),
}


def full_size(name: str, **options):
    variant = variants.parse(name)
    with torch.device("meta"):
        return variants.model_class(variant)(variants.config_class(variant)(**options))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_bytes_are_the_published_ones(name):
    parameters, per_token = PUBLISHED[name]
    vocabulary = 50257 if variants.parse(name).latent else 50304
    model = full_size(name, vocab_size=vocabulary)
    assert model.get_num_params() == parameters
    assert model.cache_bytes(1, 1, torch.float16) == 12 * per_token
    assert model.cache_bytes(3, 1024, torch.float32) == 2 * 3 * 1024 * 12 * per_token


def test_where_a_correction_changes_the_count():
    """Published GPT2_MLA_KV also put the queries through the code: 113.44 M. Here they come from
    the token, as in GPT2_MLA, so it is that model with its codecs."""
    codecs = 12 * (2 * 256 * 128 + 2 * 256)
    spliced, plain = full_size("GPT2_MLA_KV"), full_size("GPT2_MLA")
    assert spliced.get_num_params() == plain.get_num_params() + codecs
    assert spliced.cache_bytes(1, 1, torch.float16) == 12 * 256


def test_the_extra_view_costs_a_projection_in_three_layers_and_one_query_head():
    model = full_size("GPT2_RAVIEW")
    added = 3 * (64 * 768 + 768 + 2 * 768 + 1)
    assert model.get_num_params() == full_size("GPT2").get_num_params() + added
    assert model.cache_bytes(1, 1, torch.float16) == 12 * 3072 + 3 * 64 * 2


def test_the_position_embedding_can_be_left_out():
    model = full_size("GPT2")
    assert model.get_num_params() - model.get_num_params(non_embedding=True) == 1024 * 768


@pytest.mark.parametrize("name", variants.NAMED)
def test_names_are_read_both_ways(name):
    assert variants.parse(name).name == name
    assert variants.model_class(name).__name__ == name
    assert getattr(variants, name) is variants.model_class(name)


@pytest.mark.parametrize("variant", variants.pairs(), ids=lambda variant: variant.name)
def test_the_name_of_every_pair_gives_it_back(variant):
    assert variants.parse(variant.name).tags == variant.tags


def test_tags_may_stand_in_any_order_and_apart():
    assert variants.parse("GPT2_M_2_KV_MLA").name == "GPT2_MLA_KV2M"
    assert variants.parse("GPT2_MLA2_KV").name == "GPT2_MLA_KV2"


def test_every_part_is_in_some_pair():
    tags = {tag for variant in variants.pairs() for tag in variant.tags}
    assert tags == set(variants.parts()) and len(tags) == len(plugins.listing("parts"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("GPT2_RA_RA", "RA twice"),
        ("GPT2_RA_RAMIX", "both of the slot reciprocal"),
        ("GPT2_KV", "needs a part of the slot kv; add one of MLA"),
        ("GPT2_2", "needs a part of the slot kv"),
        ("GPT2_MLA_ROPE_RA", "cannot be with RA"),
        ("GPT2_FOO", "GPT2_MLA_RA_KVM"),
        ("GPT2_", "no part"),
        ("GPT3", "no model of this family"),
        ("", "no model of this family"),
    ],
)
def test_a_name_that_is_none_is_refused_with_what_is_known(name, message):
    with pytest.raises(BadInput, match=message):
        variants.parse(name)


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no part"):
        variants.GPT2_NOPE
    with pytest.raises(AttributeError, match="no attribute"):
        variants.nope


def test_the_first_parameter_says_which_configuration():
    import inspect

    for name, wanted in (("GPT2_RA", ("config", GPTConfig)), ("GPT2_MLA", ("cfg", RA_MLA_Config))):
        _, first = inspect.signature(variants.model_class(name).__init__).parameters.values()
        assert (first.name, first.annotation) == wanted


def test_the_other_configuration_is_refused():
    with pytest.raises(BadInput, match="was given a GPTConfig; it takes a RA_MLA_Config"):
        variants.model_class("GPT2_MLA")(GPTConfig())


def test_a_part_that_raises_is_named(tmp_path):
    (tmp_path / "broken.py").write_text(
        '"""A part that cannot be built."""\nTAG = "BAD"\nSLOT = "output"\n'
        "def build(config, layer):\n    raise KeyError('width')\n"
    )
    variant = variants.parse("GPT2_BAD", [tmp_path])
    with pytest.raises(BadInput, match=r"the part BAD .*fails to build layer 0.*KeyError"):
        variants.model_class(variant)(GPTConfig(n_layer=1, n_head=1, n_embd=8))


@pytest.mark.parametrize("text", ['TAG = "RA"\nSLOT = "output"', 'TAG = "X-Y"\nSLOT = "output"'])
def test_a_part_with_a_taken_or_odd_tag_is_refused(tmp_path, text):
    (tmp_path / "mine.py").write_text(f'"""A part."""\n{text}\ndef build(config, layer): ...\n')
    with pytest.raises(BadInput, match=r"mine\.py"):
        variants.parts([tmp_path])


def test_tokens_beyond_the_block_or_the_cache_are_refused():
    model = make("GPT2")
    with pytest.raises(BadInput, match="more than block_size 16"):
        model(tokens(1, 17))
    with pytest.raises(BadInput, match="room for 4 tokens"):
        model(tokens(1, 5), cache=model.new_cache(1, capacity=4))


def test_a_cache_for_another_number_of_sequences_is_refused():
    model = make("GPT2")
    with pytest.raises(BadInput, match="3 sequences and a cache for 2"):
        model(tokens(3, 4), cache=model.new_cache(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ct_mode": "sum"}, "ct_mode='sum' is not one of topk"),
        ({"n_layer": 0}, "n_layer=0"),
        ({"n_embd": 17}, "does not divide over 2 heads"),
        ({"splice_ratio": 1.5}, "splice_ratio=1.5 is not between"),
        ({"mlp_width": -3}, "mlp_width=-3"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(options, message):
    with pytest.raises(BadInput, match=message):
        GPTConfig(**{"n_layer": 2, "n_head": 2, "n_embd": 16, **options})


def test_layers_that_are_not_there_are_refused():
    with pytest.raises(BadInput, match="ra_layers names layer 9; the model has 0 to 3"):
        make("GPT2_RA", ra_layers=(1, 9))
    with pytest.raises(BadInput, match="ra_layers='often'"):
        make("GPT2_RA", ra_layers="often")
