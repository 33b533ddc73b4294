"""The cache holds exactly the bytes that the model claims, at several lengths, batches and dtypes.

Catches savings that are computed and not kept: a latent counted while whole keys are stored, or a
float16 baseline held against latents that were measured in float32.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from assay.correctness.models.awake import in_dtype
from assay.correctness.models.finding import Finding, failed, passed, unsupported
from assay.correctness.models.gates._comparison import mode
from assay.correctness.models.model_calls import call, reachable, stored, tells
from assay.correctness.models.subject import Subject

ORDER = 9
DEBUG = (
    "Print shape and dtype of every tensor in the cache after five tokens and add them up beside "
    "cache_bytes(batch, 5): what is stored and not counted, or in another dtype, shows at once."
)
UNIT = "bytes for each token of a sequence"
# Sequences, and lengths at which the bytes are counted; None is as long as it goes.
_COUNTS = {torch.float32: ((1, (1, 5)), (3, (5, None))), torch.bfloat16: ((3, (1, None)),)}


def examine(subject: Subject) -> Finding:
    """Claimed against counted, in float32 and, where the model runs in it, bfloat16."""
    if not subject.decodes:
        return unsupported("forward has no parameter cache, so there is nothing to count")
    model = subject.spare()
    if not hasattr(model, "cache_bytes"):
        count = _count(next(_fill(subject, model, 1, (None,)))[1])
        return unsupported(
            "the model claims no bytes: it has no cache_bytes(batch, tokens). Counted in float32: "
            f"{count} for {subject.length} tokens, {count / subject.length:g} for each"
        )
    if fault := _fault(subject, model):
        return failed(fault)
    each = model.cache_bytes(1, subject.length) / subject.length
    words = "as claimed in float32"
    try:
        fault = _fault(subject, in_dtype(model, torch.bfloat16))
    except Exception as error:
        words += f"; not counted in bfloat16, for it does not run: {type(error).__name__}: {error}"
    else:
        words += " and bfloat16"
        if fault:
            return failed(fault)
    return passed(f"{words}; {each:g} for each token in float32", value=each, unit=UNIT)


def _fault(subject: Subject, model: nn.Module) -> str | None:
    dtype = next(model.parameters()).dtype
    for batch, lengths in _COUNTS[dtype]:
        for held, cache in _fill(subject, model, batch, lengths):
            claimed, counted = model.cache_bytes(batch, held), _count(cache)
            if claimed not in (counted, counted - _counters(cache)):
                return (
                    f"claimed {claimed} bytes for {batch} x {held} tokens in "
                    f"{str(dtype).removeprefix('torch.')}; the cache holds {counted}: "
                    f"{_inventory(cache)}"
                )
            if hidden := _hidden(cache, batch):
                return f"the cache holds more than tensors() tells: {hidden}"
    return None


def _fill(
    subject: Subject, model: nn.Module, batch: int, lengths: tuple[int | None, ...]
) -> Iterator[tuple[int, Any]]:
    """The cache when it holds so many tokens."""
    idx = subject.tokens(batch, seed=19)
    cache, held = subject.begin(model, batch), 0
    for length in lengths:
        with mode(model, "eval"):
            cache = call(model, idx[:, held:length], cache=cache).cache
        held = length or subject.length
        yield held, cache


def _count(cache: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in stored(cache).values())


def _counters(cache: Any) -> int:
    """Bytes of single whole numbers, such as a length: a claim may leave them out."""
    single = [t for t in stored(cache).values() if t.numel() == 1 and not t.is_floating_point()]
    return sum(tensor.element_size() for tensor in single)


def _hidden(cache: Any, batch: int) -> str:
    """Numbers for each sequence that are in the cache and not among those it tells of.

    Judged only where all it tells of are found in it, for tensors() may also give copies.
    """
    if not tells(cache) or batch == 1:
        return ""
    told = {tensor.untyped_storage().data_ptr() for tensor in cache.tensors()}
    there = {t.untyped_storage().data_ptr(): t for t in reachable(cache).values() if t.numel()}
    if not told <= set(there):
        return ""
    rest = [t for place, t in there.items() if place not in told and batch in t.shape]
    return ", ".join(str(list(t.shape)) for t in rest if t.is_floating_point())


def _inventory(cache: Any) -> str:
    """Shapes and dtypes, each once."""
    kinds: dict[str, int] = {}
    for tensor in stored(cache).values():
        kind = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
        kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{count} of {kind}" for kind, count in kinds.items())
