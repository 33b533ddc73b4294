"""Real caches of a variant against the formula: filled once, token after token, never again."""

from collections.abc import Sequence
from typing import Any

import torch

from assay.errors import BadInput
from assay.kv.account import cache_bytes
from assay.models.cached_layers import CachedModel
from assay.models.gpt2 import variants
from assay.models.weightless import weightless

BATCH = 1
LONGEST = 8192
Row = dict[str, Any]
_RATIO = 0.05  # by which a ratio of measured bytes to those of the first layout may be off


def check_caches(
    model: CachedModel,
    layouts: Sequence[str],
    *,
    dtype: str,
    lengths: Sequence[int],
    beside: Sequence[Row] = (),
) -> list[Row]:
    """Return for each layout and length the bytes of the tensors that are kept, those of the
    formula, and what is wrong with them. `beside` are rows of models before it: shares are of the
    first row of all."""
    if model.config is not None:
        raise BadInput(
            f"{model.name} has no weights to run; verify takes variants such as GPT2_MLA, and "
            "sizes counts the others"
        )
    variant = variants.parse(model.name)
    longest = max(lengths)
    config = variants.config_class(variant)(block_size=longest)
    with weightless(getattr(torch, dtype)):
        real = variants.model_class(variant)(config)
    real = real.to_empty(device="cpu").eval()
    with torch.no_grad():  # drawing weights takes most of the time, and bytes do not depend on them
        for tensor in (*real.parameters(), *real.buffers()):
            tensor.fill_(0.01)
    tokens = torch.randint(0, config.vocab_size, (BATCH, longest))
    rows: list[Row] = []
    for name in layouts:
        layout = None if name == model.layout else name
        layers = model.layers(dtype=dtype, layout=layout)
        cache, start = real.new_cache(BATCH, layout=layout), 0
        for length in sorted(set(lengths)):
            with torch.no_grad():
                real(tokens[:, start:length], cache=cache)
            start = length
            measured, formula = cache.nbytes, BATCH * cache_bytes(layers, length)
            first = next((row for row in (*beside, *rows) if row["tokens"] == length), None)
            share = measured / (first["measured"] if first else measured)
            wanted = formula / (first["formula"] if first else formula)
            problems = _problems(cache, length, measured, formula)
            if abs(share / wanted - 1) > _RATIO:
                before = (*beside, *rows)[0]
                problems.append(f"the ratio to {before['layout']} is {share:.3f}, not {wanted:.3f}")
            rows.append({
                "model": model.name, "layout": name, "dtype": dtype, "tokens": length,
                "measured": measured, "formula": formula, "share": share,
                "verdict": "; ".join(problems) or "ok",
            })  # fmt: skip
    return rows


def longer_caches(model: CachedModel, layouts: Sequence[str], measured: Sequence[Row]) -> list[Row]:
    """Return rows of the formula alone, for the lengths beyond what was measured up to LONGEST
    tokens, each twice the one before."""
    length, dtype = max(row["tokens"] for row in measured), measured[0]["dtype"]
    rows: list[Row] = []
    while (length := 2 * length) <= LONGEST:
        for name in layouts:
            layers = model.layers(dtype=dtype, layout=None if name == model.layout else name)
            rows.append({
                "model": model.name, "layout": name, "dtype": dtype, "tokens": length,
                "measured": None, "formula": BATCH * cache_bytes(layers, length), "share": None,
                "verdict": "not measured",
            })  # fmt: skip
    return rows


def _problems(cache: Any, length: int, measured: int, formula: int) -> list[str]:
    problems = [] if measured == formula else [f"{measured - formula:+,} B from the formula"]
    rows = {length}
    if encoded := cache.layers[0].encoded:
        sealed = encoded.encoding.sealed(length)
        rows = {sealed, sealed // encoded.encoding.layout.block, length - sealed}
    for tensor in cache.tensors():
        if tensor.ndim > 2 and (tensor.shape[0] != BATCH or tensor.shape[-2] not in rows):
            problems.append(f"a tensor of shape {list(tensor.shape)} for {length} tokens")
            break
    return problems
