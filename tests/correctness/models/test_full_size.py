"""What a model takes at GPT-2 124M size, counted without memory."""

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


def test_it_is_that_of_the_model_itself():
    options = {"d_latent": 128}
    subject = variant_model("GPT2_MLA", options)
    found = full_size(subject, options)
    model = type(subject.make(0))(type(subject.config)(**options))
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert found.cache_bytes_per_token == 12 * 128 * 2 and not found.reason


def test_nothing_is_left_behind():
    full_size(variant_model("GPT2"), {})
    made = torch.nn.Linear(2, 2)
    assert made.weight.dtype == torch.float32 and made.weight.device.type == "cpu"


def test_what_is_fixed_is_not_told_of_each_token():
    assert full_size(subject_of(Claims), {}).cache_bytes_per_token == 2


def test_what_is_not_known_has_a_reason():
    unclaimed = full_size(subject_of(Plain), {})
    assert unclaimed.parameters == 50304 * 768 and unclaimed.cache_bytes_per_token is None
    assert "has no cache_bytes" in unclaimed.reason
    unbuilt = full_size(subject_of(Numbers), {})
    assert unbuilt.parameters is None and "cannot be built at this size" in unbuilt.reason
