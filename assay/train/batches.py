"""Batches: which tokens a step reads, as a function of the seed and the step alone.

Windows of `length` + 1 tokens begin at multiples of `length`, so each token but the first is
predicted once in an epoch. There is no state to save: a run that goes on at step 1,000 asks for the
batch of step 1,000.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from assay.errors import BadInput
from assay.train.shards import Tokens

_MOST_SEED = 2**64
_ORDERS_KEPT = 2  # a batch may lie in two epochs
_LEAST_WINDOWS = 16  # of a validation stream of which more are wanted


class TrainingBatches:
    """All windows of the training tokens, in a new order every epoch."""

    def __init__(self, tokens: Tokens, *, seed: int, batch: int, length: int) -> None:
        if not 0 <= seed < _MOST_SEED:
            raise BadInput(f"the seed {seed} is not from 0 to 2^64 - 1; give another")
        if batch < 1:
            raise BadInput(f"a batch of {batch} sequences was asked for, wanted at least 1")
        self.windows = _windows(tokens, length, "training")
        self._tokens, self._seed = tokens, seed
        self._batch, self._length = batch, length
        self._orders: dict[int, np.ndarray] = {}

    def at(self, step: int, micro: slice | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of a step, int64 [batch, length] each; of `micro` its rows only."""
        if step < 0:
            raise ValueError(f"steps count from 0, got {step}")
        rows = range(self._batch)[micro or slice(None)]
        sequences = [divmod(step * self._batch + row, self.windows) for row in rows]
        windows = [int(self._order(epoch)[place]) for epoch, place in sequences]
        return _inputs_and_targets(self._tokens, windows, self._length)

    def epoch(self, step: int) -> float:
        """Passes over all windows before a step, such as 1.5."""
        return step * self._batch / self.windows

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            if len(self._orders) == _ORDERS_KEPT:
                del self._orders[next(iter(self._orders))]
            self._orders[epoch] = permutation(self._seed, epoch, self.windows)
        return self._orders[epoch]


class ValidationWindows:
    """The first windows of the validation tokens, in their order."""

    def __init__(self, tokens: Tokens, *, length: int, count: int = 0) -> None:
        """Take the first `count` windows; all where count is 0 or there are fewer."""
        if count < 0:
            raise BadInput(f"{count} validation windows were asked for; give 0 for all of them")
        there = _windows(tokens, length, "validation")
        self.count = min(count, there) if count else there
        self._tokens, self.length = tokens, length

    def require(self, wanted: int) -> None:
        """Refuse a loss of a few windows, which says more about them than about a model, unless
        so few are wanted."""
        least = min(wanted or _LEAST_WINDOWS, _LEAST_WINDOWS)
        if self.count < least:
            raise BadInput(
                f"the validation data has {len(self._tokens):,} tokens, which are {self.count} "
                f"windows of {self.length}; at least {least} are wanted: give more text, or a "
                "smaller TRAIN_LENGTH"
            )

    def batches(
        self, batch: int, numbers: Sequence[int] | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Inputs and targets, int64 [batch, length] each, of all windows or of those `numbers`; the
        last batch may have fewer rows."""
        numbers = range(self.count) if numbers is None else numbers
        for start in range(0, len(numbers), batch):
            windows = list(numbers[start : start + batch])
            yield _inputs_and_targets(self._tokens, windows, self.length)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the windows' tokens: two runs with the same one read the same stream."""
        digest = hashlib.sha256(b"%d windows of %d tokens\n" % (self.count, self.length + 1))
        for number in range(self.count):
            window = self._tokens.window(number * self.length, self.length + 1)
            digest.update(window.astype("<i8").tobytes())
        return digest.hexdigest()


def permutation(seed: int, epoch: int, count: int) -> np.ndarray:
    """The order of `count` windows in an epoch, int64 [count].

    By sorting raw numbers of Philox, which NumPy promises to keep from version to version, as it
    does not for the permutations of its generators.
    """
    key = np.array([seed, epoch], dtype=np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(count), kind="stable")


def _windows(tokens: Tokens, length: int, split: str) -> int:
    """The number of windows, at least 1."""
    if length < 1:
        raise BadInput(f"a length of {length} tokens was asked for, wanted at least 1")
    count = (len(tokens) - 1) // length
    if count < 1:
        raise BadInput(
            f"the {split} data has {len(tokens):,} tokens, a window of length {length:,} needs "
            f"{length + 1:,}; give more data or a smaller length"
        )
    return count


def _inputs_and_targets(
    tokens: Tokens, windows: list[int], length: int
) -> tuple[np.ndarray, np.ndarray]:
    rows = [tokens.window(number * length, length + 1) for number in windows]
    stacked = np.stack(rows) if rows else np.empty((0, length + 1), dtype=np.int64)
    return np.ascontiguousarray(stacked[:, :-1]), np.ascontiguousarray(stacked[:, 1:])
