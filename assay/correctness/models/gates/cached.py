"""Decoding through the cache equals the full pass, and what is stored never changes.

Catches masks aligned top-left, where a new token sees the first key only, positions that start
anew, histories encoded again at every step, dropped entries, and state that two caches share.
"""

from collections.abc import Iterator
from typing import Any

import torch

from assay.correctness.models.finding import Finding, unsupported
from assay.correctness.models.gates._comparison import Comparison, difference, mode, verdict
from assay.correctness.models.model_calls import call, cross_entropy, loss_tolerance, stored
from assay.correctness.models.subject import Subject

ORDER = 4
DEBUG = (
    "Decode two tokens and compare with the full pass layer by layer. Wrong from the second token "
    "on: mask alignment (is_causal is top-left), position offset, or what is put into the cache; "
    "only in chunks: the mask within a chunk."
)


def examine(subject: Subject) -> Finding:
    """Single tokens and uneven chunks, two caches in turn; then one sequence alone."""
    if not subject.decodes:
        return unsupported("forward has no parameter cache, so it cannot decode")
    with mode(subject.decoding.model, "eval"):
        seen = list(_compare(subject))
    if subject.large is not None and all(one.holds for one in seen):
        with subject.large.told(), mode(subject.large.decoding.model, "eval"):
            seen += _compare_far(subject.large)
    return verdict(seen, held=f"decoding up to {subject.length} tokens equals the full pass")


def _compare(subject: Subject) -> Iterator[Comparison]:
    length = subject.length
    idx = subject.tokens(4, seed=8)
    full = call(subject.decoding.model, idx).logits
    first = _Decoding(subject, idx[:2], full[:2])
    second = _Decoding(subject, idx[2:], full[2:])
    # In turn: what one leaves on the model, or in a cache that both share, is found.
    mine = (1, 1, 1, 5, 1, 1, 1, length - 11)
    yours = (length - 10, 1, 1, 1, 1, 1, 1, 4)
    for one, other in zip(mine, yours, strict=True):
        yield from first.advance(one)
        yield from second.advance(other)
    alone = _Decoding(subject, idx[:1], full[:1])
    for chunk in (length,) if subject.fast else (3, 1, length - 4):
        yield from alone.advance(chunk)


def _compare_far(large: Subject) -> Iterator[Comparison]:
    """The larger model, from the full length back: what is left out of a cache is missing there."""
    idx = large.tokens(1, seed=8)
    decoding = _Decoding(large, idx, call(large.decoding.model, idx).logits, size=large.size)
    for chunk in (large.length - 80, 1, 1, 70, *[1] * 8):
        yield from decoding.advance(chunk)


class _Decoding:
    """One decoding of sequences [B, T] whose full pass is known."""

    def __init__(
        self, subject: Subject, idx: torch.Tensor, full: torch.Tensor, *, size: str = ""
    ) -> None:
        self.size = f", {size}" if size else ""
        self.awake = subject.decoding
        self.idx = idx
        self.full = full
        self.cache = subject.begin(self.awake.model, len(idx))
        self.allowed = self.awake.other
        self.held = 0
        self.chunks: list[int] = []
        self.entries: dict[str, torch.Tensor] = {}

    def advance(self, count: int) -> Iterator[Comparison]:
        """Decode `count` tokens more; with targets where it is a chunk of five."""
        new = slice(self.held, self.held + count)
        targets = self.idx.flip(1)[:, new] if count == 5 else None
        answer = call(self.awake.model, self.idx[:, new], targets, cache=self.cache)
        self.cache = answer.cache
        self.chunks.append(count)
        self.allowed = max(self.allowed, self.awake.through(stored(self.cache).values()))
        yield self._logits(answer.logits, new)
        if targets is not None and answer.loss is not None:
            yield self._loss(answer.loss, targets, new)
        yield from self._entries(count)
        self.held += count

    def _logits(self, logits: torch.Tensor, new: slice) -> Comparison:
        apart = difference(logits, self.full[:, new])
        return Comparison(
            moved=apart,
            allowed=self.allowed,
            words=f"logits of positions {new.start} to {new.stop - 1} differ from the full pass by "
            f"{apart:.2g}, decoded {self._way()}",
        )

    def _way(self) -> str:
        if set(self.chunks) == {1}:
            return f"token by token{self.size}"
        return f"in chunks of {', '.join(map(str, self.chunks))}{self.size}"

    def _loss(self, loss: torch.Tensor, targets: torch.Tensor, new: slice) -> Comparison:
        right = float(cross_entropy(self.full[:, new], targets))
        wrong = abs(float(loss) - right) / right
        return Comparison(
            moved=wrong,
            allowed=max(self.allowed, loss_tolerance(loss)),
            words=f"with a cache the loss is {float(loss):.6g}; cross entropy gives {right:.6g}",
        )

    def _entries(self, count: int) -> Iterator[Comparison]:
        """Tensors with a place for each token keep what they had."""
        now = _clones(self.cache)
        for path, old in self.entries.items():
            axis = _token_axis(old, now.get(path), self.held, self.held + count)
            if axis is None:
                continue
            kept = now[path].narrow(axis, 0, self.held)
            newest_first = now[path].narrow(axis, count, self.held)
            if not torch.equal(kept, old) and not torch.equal(newest_first, old):
                apart = difference(kept, old)
                yield Comparison(
                    moved=apart,
                    allowed=0.0,
                    words=f"entries of the cache change by {apart:.2g} of the largest after they "
                    f"were stored, decoded {self._way()}",
                )
        self.entries = now


def _clones(cache: Any) -> dict[str, torch.Tensor]:
    return {path: tensor.detach().clone() for path, tensor in stored(cache).items()}


def _token_axis(old: torch.Tensor, new: torch.Tensor | None, held: int, holds: int) -> int | None:
    """The axis along which a tensor had a place for each token and has one for each now."""
    if new is None or old.ndim != new.ndim:
        return None
    grown = [axis for axis in range(old.ndim) if old.shape[axis] != new.shape[axis]]
    if len(grown) != 1 or (old.shape[grown[0]], new.shape[grown[0]]) != (held, holds):
        return None
    return grown[0]
