"""Runs presses of kvpress on windows of tokens; the half of the adapter in kvpress's environment.

A script that imports the standard library, torch, transformers and kvpress, and nothing of assay:

    python -I kvpress_worker.py REQUEST.json RESULT.json

A context is prefilled, the press drops tokens of its cache, and the tokens behind it are scored
through what is left, in one pass. Nothing is fetched: models are folders.
"""

import importlib.metadata
import json
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

# By the names that the adapter uses. All of them really drop tokens: presses that mask heads
# instead keep every byte.
PRESSES = {
    "expected_attention": "ExpectedAttentionPress",
    "knorm": "KnormPress",
    "random": "RandomPress",
    "snapkv": "SnapKVPress",
    "streaming_llm": "StreamingLLMPress",
}


@dataclass(frozen=True)
class ScoredWindow:
    """One window through one cache: bytes of the context's tensors, and the tokens behind it."""

    cache_bytes: int
    nll: torch.Tensor  # [scored], in nats
    choices: torch.Tensor  # [scored], the likeliest token
    elapsed_s: float


@torch.inference_mode()
def score(model: Any, window: list[int], context: int, press: Any = None) -> ScoredWindow:
    """Prefill `context` tokens, with a press where one is given, and score the rest.

    The first token behind the context is predicted by the prefill itself, which saw everything, so
    it is fed and not scored: len(window) - context - 1 tokens are.
    """
    from transformers import DynamicCache

    start = time.perf_counter()
    ids = torch.tensor([window], device=model.device)
    cache = DynamicCache()
    with press(model) if press else nullcontext():
        model(ids[:, :context], past_key_values=cache, use_cache=True, logits_to_keep=1)
    kept = counted_bytes(cache)
    # Positions go on from the context's end, not from what is left of it.
    positions = torch.arange(context, len(window) - 1, device=model.device)[None]
    logits = model(
        ids[:, context:-1], past_key_values=cache, position_ids=positions, use_cache=True
    ).logits[0]
    nll = torch.nn.functional.cross_entropy(logits.float(), ids[0, context + 1 :], reduction="none")
    return ScoredWindow(kept, nll, logits.argmax(-1), time.perf_counter() - start)


def counted_bytes(cache: Any) -> int:
    """Bytes of the memory behind keys and values of all layers, views counted as what they hold."""
    tensors = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def row(index: int, pair: dict[str, Any], dense: ScoredWindow, pressed: ScoredWindow) -> dict:
    """Return one window under one press, beside the same window through the whole cache."""
    return {
        "press": pair["press"],
        "ratio": pair["ratio"],
        "window": index,
        "kept_bytes": pressed.cache_bytes,
        "dense_bytes": dense.cache_bytes,
        "nll": pressed.nll.mean().item(),
        "dense_nll": dense.nll.mean().item(),
        "top1": (pressed.choices == dense.choices).float().mean().item(),
        "tokens": pressed.nll.numel(),
        "seconds": pressed.elapsed_s,
    }


def run(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of all windows and presses; ends where kvpress is not the version asked."""
    installed = importlib.metadata.version("kvpress")
    if installed != request["kvpress"]:
        sys.exit(f"kvpress {installed} is installed there; wanted {request['kvpress']}")
    import kvpress
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        request["model"], dtype=getattr(torch, request["dtype"]), local_files_only=True
    ).eval()
    rows = []
    for index, window in enumerate(request["windows"]):
        dense = score(model, window, request["context"])
        for pair in request["pairs"]:
            press = getattr(kvpress, PRESSES[pair["press"]])(compression_ratio=pair["ratio"])
            torch.manual_seed(index)  # for the random one
            rows.append(row(index, pair, dense, score(model, window, request["context"], press)))
    return rows


if __name__ == "__main__":
    asked, answered = map(Path, sys.argv[1:])
    answered.write_text(json.dumps(run(json.loads(asked.read_text()))))
