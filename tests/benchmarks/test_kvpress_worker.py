"""The worker of kvpress where it needs no kvpress: scores through a cache, and bytes counted."""

from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from benchmarks.kvpress_worker import counted_bytes, score

CONTEXT, LENGTH = 24, 40


@pytest.fixture(scope="module")
def llama():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def window():
    torch.manual_seed(1)
    return torch.randint(0, 64, (LENGTH,)).tolist()


class DropTail:
    """Keeps the first tokens of the context: the smallest press that there is."""

    def __init__(self, kept):
        self.kept = kept

    @contextmanager
    def __call__(self, model):
        def drop(module, arguments, named, output):
            layer = named["past_key_values"].layers[module.layer_idx]
            layer.keys = layer.keys[:, :, : self.kept].contiguous()
            layer.values = layer.values[:, :, : self.kept].contiguous()

        hooks = [
            layer.self_attn.register_forward_hook(drop, with_kwargs=True)
            for layer in model.model.layers
        ]
        yield
        for hook in hooks:
            hook.remove()


def test_through_the_whole_cache_it_is_the_model_itself(llama, window):
    scored = score(llama, window, CONTEXT)
    with torch.inference_mode():
        logits = llama(torch.tensor([window])).logits[0]
    wanted = torch.nn.functional.cross_entropy(
        logits[CONTEXT:-1], torch.tensor(window[CONTEXT + 1 :]), reduction="none"
    )
    torch.testing.assert_close(scored.nll, wanted, rtol=1e-4, atol=1e-5)
    assert scored.nll.numel() == LENGTH - CONTEXT - 1
    assert scored.cache_bytes == 2 * 2 * CONTEXT * 2 * 8 * 4  # layers, k and v, tokens, heads, D


def test_a_press_that_keeps_all_changes_nothing(llama, window):
    dense, kept = score(llama, window, CONTEXT), score(llama, window, CONTEXT, DropTail(CONTEXT))
    assert torch.equal(dense.nll, kept.nll) and dense.cache_bytes == kept.cache_bytes


def test_one_pass_equals_token_by_token_behind_a_press(llama, window):
    """Positions go on from the context's end: counted from what is left, this differs."""
    scored = score(llama, window, CONTEXT, DropTail(10))
    assert scored.cache_bytes == 2 * 2 * 10 * 2 * 8 * 4
    cache, ids = transformers.DynamicCache(), torch.tensor([window])
    with torch.inference_mode():
        with DropTail(10)(llama):
            llama(ids[:, :CONTEXT], past_key_values=cache)
        for step in range(CONTEXT, LENGTH - 1):
            logits = llama(
                ids[:, step : step + 1],
                past_key_values=cache,
                position_ids=torch.tensor([[step]]),
            ).logits[0, -1]
            nll = -logits.log_softmax(-1)[window[step + 1]]
            torch.testing.assert_close(scored.nll[step - CONTEXT], nll, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(scored.nll, score(llama, window, CONTEXT).nll, atol=1e-3)


def test_a_view_counts_as_the_memory_that_it_holds(llama, window):
    """Slices of a cache keep the whole of it in memory, so nothing was saved."""
    cache = transformers.DynamicCache()
    with torch.inference_mode():
        llama(torch.tensor([window]), past_key_values=cache)
    whole = counted_bytes(cache)
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[:, :, :5], layer.values[:, :, :5]
    assert counted_bytes(cache) == whole
