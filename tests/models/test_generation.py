"""Generation: the same tokens with and without a cache, and distributions as they are asked for."""

import pytest
import tiny_gpt2
import torch

from assay.errors import BadInput
from assay.models.gpt2 import sampling

CHANCES = torch.tensor([0.4, 0.3, 0.2, 0.06, 0.04], dtype=torch.float64)


class Bigrams(torch.nn.Module):
    """The contract at its smallest: the next token depends on the last two; it counts its work."""

    def __init__(self, *, caches=True, vocabulary=7, block_size=16):
        super().__init__()
        drawn = torch.Generator().manual_seed(0)
        size = (vocabulary, vocabulary, vocabulary)
        self.table = torch.nn.Parameter(torch.randn(size, generator=drawn, dtype=torch.float64))
        self.dropout = torch.nn.Dropout(0.9)
        self.config = type("Config", (), {"block_size": block_size})()
        self.lengths = []
        if caches:
            self.new_cache = lambda batch: torch.zeros(batch, 0, dtype=torch.int64)

    def forward(self, idx, targets=None, cache=None):
        self.lengths.append(idx.shape[1])
        whole = idx if cache is None else torch.cat((cache, idx), dim=1)
        before = torch.nn.functional.pad(whole, (1, 0))[:, :-1]
        logits = self.dropout(self.table[before, whole])[:, -idx.shape[1] :]
        return (logits, None) if cache is None else (logits, None, whole)


def counts(rows=20_000, **options):
    """Number of times that each token is drawn."""
    logits = CHANCES.log().expand(rows, -1)
    drawn = sampling.draw(logits, generator=torch.Generator().manual_seed(1), **options)
    return torch.bincount(drawn[:, 0], minlength=len(CHANCES)).double()


def agrees(drawn, chances):
    """Pearson's chi-square below its 99.99 % point; what has no chance is never drawn."""
    chances = torch.as_tensor(chances, dtype=torch.float64)
    chances = chances / chances.sum()
    possible = chances > 0
    assert not drawn[~possible].any()
    expected = drawn.sum() * chances[possible]
    square = float(((drawn[possible] - expected) ** 2 / expected).sum())
    return square < {1: 1e-9, 2: 15.2, 3: 18.5, 4: 21.2, 5: 23.6}[int(possible.sum())]


@pytest.mark.parametrize(
    "options, chances",
    [
        ({}, CHANCES),
        ({"temperature": 0.5}, CHANCES**2),
        ({"temperature": 2.0}, CHANCES**0.5),
        ({"top_k": 2}, [0.4, 0.3, 0, 0, 0]),
        ({"top_k": 99}, CHANCES),
        ({"top_p": 0.65}, [0.4, 0.3, 0, 0, 0]),
        ({"top_p": 0.75}, [0.4, 0.3, 0.2, 0, 0]),
        ({"top_p": 1.0}, CHANCES),
        ({"top_p": 1e-9}, [1, 0, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.5}, [0.4, 0.3, 0, 0, 0]),  # 0.4 is 0.44 of what top_k leaves
        ({"top_k": 3, "top_p": 0.4}, [1, 0, 0, 0, 0]),
        ({"temperature": 0.5, "top_p": 0.6}, [0.16, 0.09, 0, 0, 0]),
        ({"temperature": 1e-300}, [1, 0, 0, 0, 0]),
        ({"temperature": 0}, [1, 0, 0, 0, 0]),
    ],
)
def test_tokens_are_drawn_as_asked(options, chances):
    assert agrees(counts(**options), chances)


def test_the_test_of_distributions_sees_a_wrong_one():
    assert not agrees(counts(temperature=1.1), CHANCES)


def test_equal_scores_keep_exactly_k():
    logits = torch.zeros(500, 6)
    drawn = sampling.draw(logits, top_k=2, generator=torch.Generator().manual_seed(0))
    assert set(drawn[:, 0].tolist()) == {0, 1}


def test_half_precision_is_added_up_in_float32():
    logits = torch.zeros(4000, 3000, dtype=torch.bfloat16)
    drawn = sampling.draw(logits, generator=torch.Generator().manual_seed(0))
    assert (drawn >= 1500).double().mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"top_k": 3, "top_p": 0.8}])
def test_a_cache_changes_no_token(options):
    idx = torch.tensor([[1, 2, 3], [4, 5, 6]])
    drawn = [
        sampling.generate(Bigrams(), idx, tokens=13, cached=cached, generator=_seeded(), **options)
        for cached in (True, False)
    ]
    assert drawn[0].shape == (2, 16) and torch.equal(drawn[0][:, :3], idx)
    assert torch.equal(*drawn)


@pytest.mark.parametrize(
    "name", ["GPT2", "GPT2_RAMIX_GATE", "GPT2_MLA_KV2M", "GPT2_MLA_ROPE_RACT_MG_MX_MR"]
)
def test_a_cache_changes_no_token_of_the_family(name):
    model, idx = tiny_gpt2.make(name), tiny_gpt2.tokens(2, 5)
    how = {"tokens": 11, "temperature": 0.8, "top_k": 20, "top_p": 0.95}
    cached, whole = (
        sampling.generate(model, idx, cached=way, generator=_seeded(), **how)
        for way in (True, False)
    )
    assert torch.equal(cached, whole) and cached.shape == (2, 16)
    with pytest.raises(BadInput, match="beyond the 16"):
        sampling.generate(model, idx, tokens=12)


def test_the_prompt_is_read_once():
    idx = torch.tensor([[1, 2, 3]])
    with_cache, without = Bigrams(), Bigrams(caches=False)
    sampling.generate(with_cache, idx, tokens=4)
    sampling.generate(without, idx, tokens=4)
    assert with_cache.lengths == [3, 1, 1, 1]
    assert without.lengths == [3, 4, 5, 6]


def test_modes_come_back_as_they_were_and_nothing_is_dropped_out():
    model = Bigrams().train()
    model.dropout.eval()
    model.inner = torch.nn.Dropout(0.5)
    first = sampling.generate(model, torch.tensor([[1]]), tokens=8, temperature=0)
    assert (model.training, model.dropout.training, model.inner.training) == (True, False, True)
    model.train()
    assert torch.equal(
        sampling.generate(model, torch.tensor([[1]]), tokens=8, temperature=0), first
    )


def test_modes_come_back_after_an_error():
    model = Bigrams().train()
    with pytest.raises(IndexError):
        sampling.generate(model, torch.tensor([[99]]), tokens=1)
    assert model.training and model.dropout.training


def test_no_gradients_are_kept():
    model = Bigrams()
    model.new_cache = None
    seen = []
    model.register_forward_hook(lambda _, __, out: seen.append(out[0].requires_grad))
    sampling.generate(model, torch.tensor([[1]]), tokens=2)
    assert seen == [False, False]


def test_no_tokens_give_the_prompt():
    idx = torch.tensor([[1, 2]])
    assert torch.equal(sampling.generate(Bigrams(), idx, tokens=0), idx)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"tokens": 14}, "beyond the 16 .* at most 13"),
        ({"tokens": -1}, "wanted 0 or more"),
        ({"idx": torch.zeros(1, 0, dtype=torch.int64)}, "prompt is empty"),
        ({"idx": torch.zeros(3, dtype=torch.int64)}, r"wanted int64 \[batch, tokens\]"),
        ({"idx": torch.zeros(1, 3)}, "float32"),
        ({"top_k": 0}, "top_k=0; wanted 1 or more"),
        ({"top_p": 0.0}, "top_p=0.0; wanted above 0"),
        ({"top_p": 1.5}, "up to 1"),
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("nan")}, "temperature=nan"),
    ],
)
def test_refusals(change, message):
    arguments = {"idx": torch.tensor([[1, 2, 3]]), "tokens": 2} | change
    with pytest.raises(BadInput, match=message):
        sampling.generate(Bigrams(), **arguments)


def _seeded():
    return torch.Generator().manual_seed(3)


def test_tokens_may_be_kept_in_another_cache_of_the_model():
    """A cache in another layout keeps all tokens but the last."""
    model = tiny_gpt2.make("GPT2").float().eval()
    idx = torch.zeros(1, 2, dtype=torch.int64)
    cache = model.new_cache(1, layout="k8v8")
    made = sampling.generate(model, idx, tokens=5, temperature=0, cache=cache)
    assert made.shape == (1, 7) and cache.length == 6 and cache.layers[0].encoded
