"""Cases that decode kernels are held to: small, for Triton's interpreter is slow, and awkward."""

from dataclasses import dataclass
from typing import Any

from assay.workloads.spec import WorkloadSpec

WIDTHS = (64, 128)  # of a head
ROWS = (256, 288)  # of latents: 288 is 256 and 32 that are rotated
KEYS = (1, 63, 113, 127, 128, 129, 1023)  # around tiles, and primes far from any
LONG, BATCH = 4097, 17  # as servers have them: keys of one sequence, and sequences
GROUPS = (1, 3, 4, 8)  # query heads of a kv head


@dataclass(frozen=True, kw_only=True)
class DecodeCases:
    """Settings of a check of a decode kernel, and the cases that follow from them."""

    seed: int
    quick: bool
    dtypes: tuple[str, ...]
    latent: bool  # one row for all heads
    accepts: frozenset[str] = frozenset({"lengths"})  # what it takes beyond the plain call

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of a head, or of a row."""
        return ROWS if self.latent else WIDTHS

    def spec(self, number: int = 0, *, group: int = 4, **changes: Any) -> WorkloadSpec:
        """Return a step of two sequences; `number` chooses among dtypes and widths in turn."""
        kv_heads, widths = 1 if self.latent else 2, self.widths
        fields: dict[str, Any] = {
            "batch": 2, "heads": group * kv_heads, "kv_heads": kv_heads, "query_length": 1,
            "key_length": 113, "head_dim": widths[number // len(self.dtypes) % len(widths)],
            "dtype": self.dtypes[number % len(self.dtypes)], "causal": True, "seed": self.seed,
        }  # fmt: skip
        return WorkloadSpec(**{**fields, **changes})

    def by_turns(self, *changes: dict[str, Any]) -> list[WorkloadSpec]:
        """Return a case for each of some changes; not only quick, one in each dtype."""
        if self.quick:
            return [self.spec(number, **each) for number, each in enumerate(changes)]
        count = len(self.dtypes)
        return [
            self.spec(number * count + turn, **each)
            for number, each in enumerate(changes)
            for turn in range(count)
        ]
