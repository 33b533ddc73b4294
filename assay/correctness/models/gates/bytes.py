"""The cache holds exactly the bytes that the model claims, at several lengths, batches and dtypes.

Catches savings that are computed and not kept: a latent counted while whole keys are stored, or a
float16 baseline held against latents that were measured in float32, or codes that are counted
beside an exact copy that is read.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import (
    Finding,
    failed,
    not_examined,
    passed,
    relative_difference,
    unsupported,
)
from assay.correctness.models.forward import (
    cache_tensors,
    declares_tensors,
    forward,
    in_mode,
    reachable_tensors,
)
from assay.correctness.models.perturbation import dtype_name, to_dtype

ORDER = 10
DEBUG = (
    "Print shape and dtype of every tensor in the cache after five tokens and add them up beside "
    "cache_bytes(batch, 5): what is stored and not counted, or in another dtype, shows at once."
)
UNIT = "bytes for each token of a sequence"
# Batch sizes, and lengths at which the bytes are counted; None is the longest.
_COUNTS = {torch.float32: ((1, (1, 5)), (3, (5, None))), torch.bfloat16: ((3, (1, None)),)}


def examine(subject: ExaminedModel) -> Finding:
    """Compare claimed with counted bytes in float32 and, where the model runs in it, bfloat16."""
    if not subject.has_cache:
        return not_examined(subject.missing_cache_text)
    model = subject.scratch()
    if not hasattr(model, "cache_bytes"):
        if fault := _uncounted_read(subject):
            return failed(fault)
        _, cache = next(_fill(subject, model, 1, (None,)))
        count = _stored_bytes(cache)
        return unsupported(
            "the model claims no bytes: it has no cache_bytes(batch, tokens). Counted in float32: "
            f"{count} for {subject.length} tokens, {count / subject.length:g} for each"
        )
    if fault := _fault(subject, model):
        return failed(fault)
    if fault := _uncounted_read(subject):
        return failed(fault)
    per_token = model.cache_bytes(1, subject.length) / subject.length
    dtypes = "as claimed in float32"
    try:
        fault = _fault(subject, to_dtype(model, torch.bfloat16))
    except Exception as error:
        dtypes += f"; not counted in bfloat16, for it does not run: {type(error).__name__}: {error}"
    else:
        dtypes += " and bfloat16"
        if fault:
            return failed(fault)
    reason = f"{dtypes}; {per_token:g} for each token in float32"
    return passed(reason, value=per_token, unit=UNIT)


def _fault(subject: ExaminedModel, model: nn.Module) -> str | None:
    """First difference between claim and cache in words; None where there is none."""
    dtype = next(model.parameters()).dtype
    for batch, lengths in _COUNTS[dtype]:
        for length, cache in _fill(subject, model, batch, lengths):
            claimed, counted = model.cache_bytes(batch, length), _stored_bytes(cache)
            if claimed not in (counted, counted - _counter_bytes(cache)):
                return (
                    f"claimed {claimed} bytes for {batch} x {length} tokens in "
                    f"{dtype_name(dtype)}; the cache holds {counted}: {_inventory(cache)}"
                )
            whole = dtype == torch.float32 and length == subject.length
            looks_for_hidden = subject.has_user_code or whole  # in the family one look is enough
            if batch > 1 and looks_for_hidden and declares_tensors(cache):
                _, of_single = next(_fill(subject, model, 1, (length,)))
                # Weights of a codec that the cache refers to do not grow with the batch.
                if hidden := _undeclared(cache) - _undeclared(of_single):
                    shapes = ", ".join(str(list(shape)) for shape in hidden)
                    return f"the cache holds more than tensors() lists: {shapes}"
    return None


def _uncounted_read(subject: ExaminedModel) -> str | None:
    """Put all that is counted of one cache into one of other tokens: then both must decode alike.

    None where they do, and where shapes depend on the tokens.
    """
    model, idx = subject.decoder.model, subject.tokens(4, subject.length // 2, seed=19)
    held, last = idx[:, :-1], idx[:2, -1:]
    with in_mode(model, "eval"):
        cache = forward(model, held[:2], cache=subject.empty_cache(model, 2)).cache
        counted = {  # what a cache lists may be copies, and what it has may be more
            listing: [tensor.clone() for tensor in listing(cache).values()]
            for listing in (cache_tensors, reachable_tensors)
        }
        expected = forward(model, last, cache=cache).logits
        other = forward(model, held[2:], cache=subject.empty_cache(model, 2)).cache
        if not any(_is_put(tensors, listing, other) for listing, tensors in counted.items()):
            return None
        difference = relative_difference(forward(model, last, cache=other).logits, expected)
    if difference <= subject.decoder.same_shape_tolerance:
        return None
    return (
        "decoding reads what is not counted, such as an exact copy beside its codes: a cache of "
        f"other tokens, given all that is counted in one, decodes otherwise, by {difference:.2g}"
    )


def _is_put(tensors: list[torch.Tensor], listing: Callable, cache: Any) -> bool:
    """Write tensors into those that a cache lists; True where it lists them from then on."""
    places = list(listing(cache).values())
    if [place.shape for place in places] != [tensor.shape for tensor in tensors]:
        return False
    with torch.inference_mode():
        for place, tensor in zip(places, tensors, strict=True):
            once = tuple(slice(None if stride else 1) for stride in place.stride())  # if expanded
            place[once].copy_(tensor[once])
    return all(map(torch.equal, listing(cache).values(), tensors))


def _fill(
    subject: ExaminedModel, model: nn.Module, batch: int, lengths: tuple[int | None, ...]
) -> Iterator[tuple[int, Any]]:
    """Each length with the cache that holds so many tokens."""
    idx = subject.tokens(batch, seed=19)
    cache, held = subject.empty_cache(model, batch), 0
    for length in lengths:
        with in_mode(model, "eval"):
            cache = forward(model, idx[:, held:length], cache=cache).cache
        held = length or subject.length
        yield held, cache


def _stored_bytes(cache: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in cache_tensors(cache).values())


def _counter_bytes(cache: Any) -> int:
    """Bytes of single integers, such as a length: a claim may leave them out."""
    tensors = cache_tensors(cache).values()
    return sum(t.element_size() for t in tensors if t.numel() == 1 and not t.is_floating_point())


def _undeclared(cache: Any) -> Counter[torch.Size]:
    """Shapes of tensors that the cache holds and does not declare.

    Judged only where all declared ones are reachable, for tensors() may also return copies.
    """
    declared = {_pointer(tensor) for tensor in cache.tensors()}
    reachable = {_pointer(t): t for t in reachable_tensors(cache).values() if t.numel()}
    if not declared <= set(reachable):
        return Counter()
    hidden = (tensor for pointer, tensor in reachable.items() if pointer not in declared)
    return Counter(tensor.shape for tensor in hidden if tensor.is_floating_point())


def _pointer(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _inventory(cache: Any) -> str:
    """Dtypes and shapes, each once with its count."""
    counts = Counter(
        f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"
        for tensor in cache_tensors(cache).values()
    )
    return ", ".join(f"{count} of {text}" for text, count in counts.items())
