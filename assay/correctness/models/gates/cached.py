"""Decoding through the cache equals the full pass, and stored entries never change.

Catches masks aligned top-left, where a new token sees the first key only, positions that start
anew, histories encoded again at every step, dropped entries, and state that two caches share.
"""

from collections.abc import Iterator
from typing import Any

import torch

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Comparison, Finding, compare, not_examined, summarize
from assay.correctness.models.first_difference import ComparedCall, first_difference
from assay.correctness.models.forward import cache_tensors, compare_loss, forward, in_mode

ORDER = 5
COMPARES_CALLS = True
DEBUG = (
    "Compare the module that is first to differ with the full pass. Wrong from the second token "
    "on: mask alignment (is_causal is top-left), position offset, or what is put into the cache; "
    "only in chunks: the mask within a chunk, or entries lost where a chunk crosses a ring's end."
)
_LARGER_CHUNKS = (45, 7, 7, 7, 5, 69, 1, 1, 7, 51, 7, 45, 9, *[1] * 6, 5)


def examine(subject: ExaminedModel) -> Finding:
    """Decode single tokens and uneven chunks with two caches in turn, then one sequence alone."""
    if not subject.has_cache:
        return not_examined(subject.missing_cache_text)
    comparisons: list[Comparison] = []
    with in_mode(subject.decoder.model, "eval"):
        try:
            comparisons += _compare(subject)
        except Exception:
            if all(comparison.holds for comparison in comparisons):
                raise  # otherwise it follows from what was seen before
    larger = subject.larger
    if larger is not None and all(comparison.holds for comparison in comparisons):
        with larger.size_in_errors(), in_mode(larger.decoder.model, "eval"):
            comparisons += _compare_larger(larger)
    success = f"decoding up to {subject.length} tokens equals the full pass"
    return summarize(comparisons, success=success)


def _compare(subject: ExaminedModel) -> Iterator[Comparison]:
    length = subject.length
    idx = subject.tokens(4, seed=8)
    full = forward(subject.decoder.model, idx).logits
    first = _Decoding(subject, idx[:2], full[:2])
    second = _Decoding(subject, idx[2:], full[2:])
    # In turn, so that state left on the model, or in a cache that both share, is seen. Chunks of
    # odd sizes, from 3 and from 7 on: they cross the end of a ring of 4 or 8 entries.
    first_chunks = (1, 1, 1, 5, 1, 1, 1, length - 11)
    second_chunks = (length - 9, 3, 1, 1, 1, 1, 1, 1)
    for first_chunk, second_chunk in zip(first_chunks, second_chunks, strict=True):
        yield from first.advance(first_chunk)
        yield from second.advance(second_chunk)
    alone = _Decoding(subject, idx[:1], full[:1])
    for chunk in (3, 1, length - 4):
        yield from alone.advance(chunk)


def _compare_larger(larger: ExaminedModel) -> Iterator[Comparison]:
    """Decode up to the full length of the larger model: entries left out of a cache show there.

    Chunks of odd sizes cross 64, 128 and 256, where a ring of any power of two ends, and a quarter,
    half and three quarters of the length; single tokens behind them read what was stored.
    """
    idx = larger.tokens(1, seed=8)
    full = forward(larger.decoder.model, idx).logits
    decoding = _Decoding(larger, idx, full, size=f", {larger.size_text}")
    for chunk in _LARGER_CHUNKS:
        yield from decoding.advance(chunk)


class _Decoding:
    """Decoding of sequences [B, T] whose logits of the full pass [B, T, V] are known."""

    def __init__(
        self, subject: ExaminedModel, idx: torch.Tensor, full: torch.Tensor, *, size: str = ""
    ) -> None:
        self.subject = subject
        self.decoder = subject.decoder
        self.idx = idx
        self.full = full
        self.size = size
        self.cache = subject.empty_cache(self.decoder.model, len(idx))
        self.tolerance = self.decoder.new_shape_tolerance
        self.held = 0
        self.chunks: list[int] = []
        self.entries: dict[str, torch.Tensor] = {}

    def advance(self, count: int) -> Iterator[Comparison]:
        """Decode `count` tokens more; a chunk of five with targets."""
        new = slice(self.held, self.held + count)
        targets = self.idx.flip(1)[:, new] if count == 5 else None
        output = forward(self.decoder.model, self.idx[:, new], targets, cache=self.cache)
        self.cache = output.cache
        self.chunks.append(count)
        stored = self.decoder.tolerance_through(cache_tensors(self.cache).values())
        self.tolerance = max(self.tolerance, stored)
        yield self._compare_logits(output.logits, new)
        if targets is not None and output.loss is not None:
            yield compare_loss(output, self.full[:, new], targets, self.tolerance, "with a cache")
        yield from self._compare_entries(count)
        self.held += count

    def _compare_logits(self, logits: torch.Tensor, new: slice) -> Comparison:
        message = (
            f"logits of positions {new.start} to {new.stop - 1} differ from the full pass by %.2g, "
            f"decoded {self._chunks_text()}"
        )
        chunks, tolerance = tuple(self.chunks), self.tolerance
        return compare(
            logits,
            self.full[:, new],
            tolerance,
            message,
            locate=lambda: self._first_difference(chunks, tolerance),
        )

    def _first_difference(self, chunks: tuple[int, ...], tolerance: float) -> str | None:
        """Decode the same chunks again, and compare each module in the last with the full pass."""
        model, held = self.decoder.model, sum(chunks[:-1])
        new = slice(held, held + chunks[-1])
        with in_mode(model, "eval"):
            cache = self.subject.empty_cache(model, len(self.idx))
            for chunk in self.idx[:, :held].split(list(chunks[:-1]), dim=1):
                cache = forward(model, chunk, cache=cache).cache
            full = ComparedCall(
                call=lambda: forward(model, self.idx),
                shape=(self.idx.shape[0], self.idx.shape[1]),
                first=new.start,
                end=new.stop,
            )
            decoded = ComparedCall(
                call=lambda: forward(model, self.idx[:, new], cache=cache),
                shape=(len(self.idx), chunks[-1]),
            )
            return first_difference(model, full, decoded, tolerance=tolerance)

    def _chunks_text(self) -> str:
        if set(self.chunks) == {1}:
            return f"token by token{self.size}"
        return f"in chunks of {', '.join(map(str, self.chunks))}{self.size}"

    def _compare_entries(self, count: int) -> Iterator[Comparison]:
        """Require that tensors with a place for each token keep their entries."""
        entries = _copies(self.cache)
        for path, old in self.entries.items():
            axis = _token_axis(old, entries.get(path), self.held, self.held + count)
            if axis is None:
                continue
            oldest_first = entries[path].narrow(axis, 0, self.held)
            newest_first = entries[path].narrow(axis, count, self.held)
            if not torch.equal(oldest_first, old) and not torch.equal(newest_first, old):
                message = (
                    "entries of the cache change by %.2g of the largest after they were stored, "
                    f"decoded {self._chunks_text()}"
                )
                yield compare(oldest_first, old, 0.0, message)
        self.entries = entries


def _copies(cache: Any) -> dict[str, torch.Tensor]:
    return {path: tensor.detach().clone() for path, tensor in cache_tensors(cache).items()}


def _token_axis(
    old: torch.Tensor, new: torch.Tensor | None, old_length: int, new_length: int
) -> int | None:
    """Axis that had a place for each token and has one for each now."""
    if new is None or old.ndim != new.ndim:
        return None
    sizes = list(zip(old.shape, new.shape, strict=True))
    grown = [axis for axis, (before, after) in enumerate(sizes) if before != after]
    return grown[0] if [sizes[axis] for axis in grown] == [(old_length, new_length)] else None
