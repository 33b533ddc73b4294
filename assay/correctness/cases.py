"""Seeded generator of the cases that correctness probes run on.

Sizes are small, because errors of attention show in small cases, and awkward, because that is where
they show. A probe that needs particular cases builds them with `CaseGenerator.spec`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from assay.workloads.spec import DTYPES, WorkloadSpec

# Defaults for one implementation, the same as Kconfig's. The time is a limit, not a measure: a
# check that reaches it is incomplete. On two ARM cores, where half precision is slow, all cases of
# sdpa take two minutes, the quick ones eight seconds.
CASES, BUDGET_S = 120, 480
QUICK_CASES = 24

# Around the tile sizes that kernels use, and primes far from any.
LENGTHS = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 113, 127, 128, 129, 191, 255, 256, 257)
LONG = (511, 512, 513, 1023, 1024, 1025)
HEADS = ((1, 1), (2, 2), (3, 3), (2, 1), (4, 1), (8, 1), (4, 2), (6, 2), (8, 2), (3, 1), (9, 3))
HEAD_DIMS = (16, 32, 64, 64, 128, 128, 256, 24, 40, 80, 96, 192)
SCALES = (100, 100, 37, 250)

# Multiplications of one product of a random case, above which its head dimension is a small one:
# without instructions for it, a CPU takes 10 s for a backward of 33 million in bfloat16. For the
# same reason no length of a quick check is above QUICK_LENGTH on a CPU.
QUICK_WORK, CPU_WORK = 1 << 20, 1 << 25
SMALL_HEAD_DIM = 32
QUICK_LENGTH = 129


@dataclass(frozen=True, kw_only=True)
class CaseGenerator:
    """Settings of a check, and the cases that follow from them."""

    seed: int
    count: int  # random cases, over all probes that use them
    quick: bool
    gpu: bool
    dtypes: tuple[str, ...] = DTYPES
    accepts: frozenset[str] = frozenset()
    configs: tuple[str, ...] = ()

    def spec(self, *, length: int | None = None, **changes: Any) -> WorkloadSpec:
        """Return a small causal case in the first dtype with `changes`; `length` sets both."""
        fields: dict[str, Any] = {
            "batch": 1, "heads": 2, "kv_heads": 2, "query_length": 33, "key_length": 33,
            "head_dim": 32, "dtype": self.dtypes[0], "causal": True, "seed": self.seed,
        }  # fmt: skip
        if length is not None:
            fields |= {"query_length": length, "key_length": length}
        if "heads" in changes:
            fields["kv_heads"] = changes["heads"]
        return WorkloadSpec(**{**fields, **changes})

    def half(self) -> str:
        """Return the first half-precision dtype, or the only dtype there is."""
        return next((dtype for dtype in self.dtypes if dtype != "float32"), self.dtypes[0])

    def random(self, count: int, purpose: str) -> list[WorkloadSpec]:
        """Return `count` random cases, the same for the same seed and purpose."""
        draw = Random(f"{self.seed}/{purpose}")
        return [self._random(draw, index) for index in range(count)]

    def _random(self, draw: Random, index: int) -> WorkloadSpec:
        heads, kv_heads = draw.choice(HEADS)
        queries, keys = self._lengths(draw)
        batch = draw.choice((1, 1, 2, 3, 5))
        if batch * heads * queries * keys > (600_000 if self.gpu else 300_000):
            batch, (heads, kv_heads) = 1, (2, 1)
        head_dim = draw.choice(HEAD_DIMS)
        most_work = QUICK_WORK if self.quick else CPU_WORK
        if not self.gpu and batch * heads * queries * keys * head_dim > most_work:
            head_dim = SMALL_HEAD_DIM
        return WorkloadSpec(
            batch=batch,
            heads=heads,
            kv_heads=kv_heads,
            query_length=queries,
            key_length=keys,
            head_dim=head_dim,
            dtype=self.dtypes[index % len(self.dtypes)],
            causal=draw.random() < 0.6,
            seed=self.seed + index + 1,
            scale_percent=draw.choice(SCALES),
        )

    def _lengths(self, draw: Random) -> tuple[int, int]:
        """Return lengths of queries and keys: as often equal as not, now and then long or odd."""

        def length() -> int:
            kind = draw.random()
            if kind < 0.05 and not self.quick:
                return draw.choice(LONG)
            if self.quick and not self.gpu:
                few = LENGTHS[: LENGTHS.index(QUICK_LENGTH) + 1]
                return draw.randint(1, QUICK_LENGTH) if kind < 0.3 else draw.choice(few)
            return draw.randint(1, 300) if kind < 0.3 else draw.choice(LENGTHS)

        keys = length()
        return (keys if draw.random() < 0.5 else length()), keys


def interleaved_by_cost(specs: Sequence[WorkloadSpec]) -> list[WorkloadSpec]:
    """Return each case once: every fourth from cheap to costly, then those between.

    A check that runs out of time then leaves out cases of every size, not all the large ones.
    """
    ordered = sorted(dict.fromkeys(specs), key=cost)
    return [spec for start in (0, 2, 1, 3) for spec in ordered[start::4]]


def cost(spec: WorkloadSpec) -> int:
    """Return the rough cost of a case, in multiplications."""
    scores = spec.batch * spec.heads * spec.query_length * spec.key_length
    return scores * (spec.head_dim + 64)
