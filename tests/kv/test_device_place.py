"""Steps that are captured once and replayed: where they write, what they count, what they refuse.

A graph needs a GPU; in its place stands the step itself, which writes over the same logits.
"""

from importlib.util import find_spec
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
if not find_spec("triton"):
    pytest.skip("Triton is not installed", allow_module_level=True)

from assay.errors import BadInput
from assay.kv.device_place import CapturedStep
from assay.models.gpt2 import graphed_steps, variants

PROMPT, COUNT, BATCH = 9, 12, 2


@pytest.fixture(autouse=True)
def step_for_graph(monkeypatch):
    def captured(self, length):
        self.place.put(length)
        logits = self._step(self.tokens, self.place).clone()
        again = lambda: logits.copy_(self._step(self.tokens, self.place))  # noqa: E731
        return logits, SimpleNamespace(replay=again)

    monkeypatch.setattr(CapturedStep, "_captured", captured)


def ids() -> torch.Tensor:
    return torch.randint(61, (BATCH, COUNT), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layout", [None, "k16v8"])
def test_steps_of_our_models(layout, monkeypatch):
    """The same logits as steps without a graph, a prompt read in between, up to the last place."""
    config = {"block_size": COUNT, "vocab_size": 61, "n_layer": 2, "n_head": 4, "n_embd": 64}
    variant = variants.parse("GPT2")
    torch.manual_seed(0)
    model = variants.model_class(variant)(variants.config_class(variant)(**config)).eval()
    cache, other = (model.new_cache(BATCH, layout=layout) for _ in range(2))
    with torch.no_grad():
        for each in (cache, other):
            model(ids()[:, :PROMPT], cache=each)
        monkeypatch.setattr(graphed_steps, "why_not", lambda *_: None)
        steps = graphed_steps.GraphedSteps(model, cache)
        for i in range(PROMPT, COUNT):
            step = model if i == PROMPT + 1 else None  # one of them is not replayed
            token = ids()[:, i : i + 1]
            given = step(token, cache=cache)[0] if step else steps(token)
            wanted = model(token, cache=other)[0]
            assert (given - wanted).abs().max() < 1e-5 * wanted.abs().max()
    assert cache.length == COUNT and cache.nbytes == other.nbytes
    with pytest.raises(BadInput, match=f"{COUNT} tokens are in the cache, and there is room for"):
        steps(ids()[:, :1])
    with pytest.raises(BadInput, match="one new token of each sequence"):
        steps(ids()[:, :2])


def test_steps_of_models_of_transformers(monkeypatch):
    transformers = pytest.importorskip("transformers")
    from assay.integrations.transformers import LayoutCache, register_decode, replayed

    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=128, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=61, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    model.set_attn_implementation(register_decode())
    cache, other = (LayoutCache(model, "k16v8", capacity=COUNT) for _ in range(2))
    with torch.no_grad():
        for each in (cache, other):
            model(ids()[:, :PROMPT], past_key_values=each, use_cache=True)
        monkeypatch.setattr(replayed, "why_not", lambda *_: None)
        steps = replayed.ReplayedSteps(model, cache)
        for i in range(PROMPT, COUNT):
            token = ids()[:, i : i + 1]
            wanted = model(token, past_key_values=other, use_cache=True).logits
            assert (steps(token) - wanted).abs().max() < 1e-5 * wanted.abs().max()
    assert cache.get_seq_length() == COUNT and cache.nbytes == other.nbytes
    with pytest.raises(BadInput, match="there is room for 12"):
        steps(ids()[:, :1])
