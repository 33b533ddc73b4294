"""What is known of one attention call while its model is traced: all but the numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from assay.workloads.manifest import Phase, Scalar, TensorEntry


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


STATISTICS = "*statistics"  # what the vector of all statistics is called among arrays
# Along which axis a cache grows, by the name of its tensor.
GROWING = {"k": 2, "v": 2, "cache.k": 1, "cache.v": 1}
