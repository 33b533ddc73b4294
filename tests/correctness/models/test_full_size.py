"""Parameters and cache of a model at GPT-2 124M size, counted without memory."""

import pytest

pytest.importorskip("torch")

import torch

from assay.correctness.models.examined_model import ExaminedModel, variant_model
from assay.correctness.models.full_size import full_size
from assay.models.gpt2.config import GPTConfig


class Plain(torch.nn.Module):
    """An embedding; it may claim bytes of a cache."""

    def __init__(self, config):
        super().__init__()
        self.wte = torch.nn.Embedding(config.vocab_size, config.n_embd)

    def get_num_params(self):
        return sum(parameter.numel() for parameter in self.parameters())


class Claims(Plain):
    def cache_bytes(self, batch, tokens):
        return batch * (100 + tokens * self.wte.weight.element_size())


class Numbers(Plain):
    """Looks at its weights when it is made."""

    def __init__(self, config):
        super().__init__(config)
        self.start = self.wte.weight.sum().item()


def subject_of(kind) -> ExaminedModel:
    config = GPTConfig(n_layer=1, n_head=1, n_embd=4, vocab_size=7)
    return ExaminedModel(name=kind.__name__, build=kind, config=config)


def test_numbers_are_those_of_a_model_that_is_built():
    subject = variant_model("GPT2_MLA", {"d_latent": 128})
    options = {"d_latent": 128, "n_layers": 2}
    size = full_size(subject, options)
    model = type(subject.make(0))(type(subject.config)(**options))
    assert size.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert size.cache_bytes_per_token == 2 * 128 * 2 and not size.reason


def test_dtype_and_device_are_restored():
    full_size(variant_model("GPT2"), {})
    layer = torch.nn.Linear(2, 2)
    assert layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu"


def test_a_fixed_part_of_the_cache_is_no_part_of_a_token():
    assert full_size(subject_of(Claims), {}).cache_bytes_per_token == 2


def test_an_unknown_number_has_a_reason():
    unclaimed = full_size(subject_of(Plain), {})
    assert unclaimed.parameters == 50304 * 768 and unclaimed.cache_bytes_per_token is None
    assert "has no cache_bytes" in unclaimed.reason
    unbuilt = full_size(subject_of(Numbers), {})
    assert unbuilt.parameters is None and "cannot be built at this size" in unbuilt.reason
