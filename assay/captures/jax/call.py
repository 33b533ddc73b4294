"""What is known of one attention call while its model is traced: all but the numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from assay.captures.manifest import Phase, Scalar, TensorEntry


@dataclass(frozen=True, kw_only=True)
class AttentionCall:
    """One call of one site. It can be hashed: it travels in the structure of a pytree."""

    site: str
    phase: Phase
    implementation: str | None
    scalars: tuple[tuple[str, Scalar], ...]
    orders: tuple[tuple[str, str], ...]  # how q, k, v and out lay in memory
    number: int = 0  # which call of the site in one run of the program
    countable: bool = True  # False in a loop whose turns cannot be told apart


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept of the tensors of a call, as the store will list it."""

    entries: tuple[tuple[str, TensorEntry], ...]
    cut: tuple[tuple[str, str], ...] = ()

    @property
    def stored(self) -> Mapping[str, TensorEntry]:
        """The entries of tensors that are there."""
        return {name: entry for name, entry in self.entries if entry.why is None}

    def with_rows(self, times: int) -> "Kept":
        """The same of `times` as many rows; a single row for all becomes as many as the others."""
        if times == 1:
            return self
        rows = max((entry.shape[0] for _, entry in self.entries if entry.shape), default=1)
        entries = []
        for name, entry in self.entries:
            if entry.shape:
                one = rows if entry.shape[0] == 1 else entry.shape[0]
                entry = msgspec.structs.replace(entry, shape=(one * times, *entry.shape[1:]))
            entries.append((name, entry))
        return replace(self, entries=tuple(entries))


# What the vector is called that carries statistics, or that there are none, among arrays.
SUMMARY = "*summary"
# Along which axis a cache grows, by the name of its tensor.
GROWING = {"k": 2, "v": 2, "cache.k": 1, "cache.v": 1}
