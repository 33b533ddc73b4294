"""Seeded generator of the cases that correctness probes run on.

Sizes are small, because errors of attention show in small cases, and awkward, because that is where
they show. A probe that needs particular cases builds them with `CaseGenerator.spec`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from assay.attention.limits import WorkloadLimits
from assay.workloads.spec import DTYPES, WorkloadSpec

# Defaults for one implementation, the same as Kconfig's. The time is a limit, not a measure: a
# check that reaches it is incomplete. On two ARM cores, where half precision is slow, all cases of
# sdpa take two minutes, the quick ones eight seconds.
CASES, BUDGET_S = 120, 480
QUICK_CASES = 24
FEWEST_CASES = 12  # of a probe that has as many, for a word about it
TILE = 16  # a length that is no multiple of it leaves a tail in any tile
_LONGER, _DRAWN = 3, 200  # other cases like one: so many multiples longer, so often drawn anew

# Around the tile sizes that kernels use, and primes far from any.
LENGTHS = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 113, 127, 128, 129, 191, 255, 256, 257)
LONG = (511, 512, 513, 1023, 1024, 1025)
HEADS = ((1, 1), (2, 2), (3, 3), (2, 1), (4, 1), (8, 1), (4, 2), (6, 2), (8, 2), (3, 1), (9, 3))
HEAD_DIMS = (16, 32, 64, 64, 128, 128, 256, 24, 40, 80, 96, 192)
SCALES = (100, 100, 37, 250)
# Query and kv heads as models have them, a batch whose entries times kv heads are more than 256,
# and causal lengths of several tiles of any kernel. Head dimensions are small: all are in each
# check, quick too.
MODEL_HEADS = ((32, 8), (64, 8), (40, 40), (128, 1))
MODEL_BATCH = 33
MODEL_LENGTHS = (1025, 512, 257)

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
    backward: bool = True  # whether there is one
    models: bool = True  # whether shapes of models are among the cases

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

    def of_models(self) -> list[WorkloadSpec]:
        """Return short causal cases with the heads of models, and one with a large batch."""
        shapes = [(1, *heads, 33) for heads in MODEL_HEADS] + [(MODEL_BATCH, 16, 8, 17)]
        return [
            self.spec(
                batch=batch, heads=heads, kv_heads=kv_heads, length=length, head_dim=16,
                dtype=self.dtypes[turn % len(self.dtypes)],
            )
            for turn, (batch, heads, kv_heads, length) in enumerate(shapes)
        ] if self.models else []  # fmt: skip

    def long(self) -> list[WorkloadSpec]:
        """Return long causal cases, the last with fewer queries than keys; the longest is in the
        first dtype, which no CPU is slow in."""
        most, least = MODEL_LENGTHS[0], MODEL_LENGTHS[-1]
        lengths = [(n, n) for n in MODEL_LENGTHS] + [(least, most // 2 + least // 2)]
        return [
            self.spec(
                query_length=queries, key_length=keys, kv_heads=1, head_dim=16,
                dtype=self.dtypes[turn % len(self.dtypes)],
            )
            for turn, (queries, keys) in enumerate(lengths)
        ] if self.models else []  # fmt: skip

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


def inside(
    specs: Sequence[WorkloadSpec], limits: WorkloadLimits, takes: Callable[[WorkloadSpec], bool]
) -> list[WorkloadSpec]:
    """Return the cases brought inside limits, as many as there were: one that is there already, or
    is refused all the same, makes room for one like it that is longer or drawn anew."""
    chosen: dict[WorkloadSpec, None] = {}
    for turn, spec in enumerate(dict.fromkeys(specs)):
        fitted = limits.fitted(spec, turn)
        if fitted is None:
            continue
        candidates = [fitted] if fitted == spec and takes(spec) else _like(fitted, limits)
        chosen.setdefault(next((c for c in candidates if c not in chosen and takes(c)), fitted))
    return list(chosen)


def _like(spec: WorkloadSpec, limits: WorkloadLimits) -> Iterator[WorkloadSpec]:
    """Yield a case, others a few multiples longer, and others with other values."""
    yield spec
    for steps in range(1, _LONGER + 1):
        more = steps * limits.lengths
        for queries, keys in ((0, more), (more, 0), (more, more)):
            longer = replace(
                spec, query_length=spec.query_length + queries, key_length=spec.key_length + keys
            )
            if not limits.refusal(longer):
                yield longer
    yield replace(spec, batch=1, heads=spec.heads // spec.kv_heads, kv_heads=1)
    if not spec.packed:
        yield replace(spec, batch=spec.batch + 1)
    yield replace(spec, heads=2 * spec.heads, kv_heads=2 * spec.kv_heads)
    yield from (replace(spec, seed=spec.seed + 1000 * n) for n in range(1, _DRAWN + 1))


def in_order(
    specs: Sequence[WorkloadSpec], size: Callable[[WorkloadSpec], int] | None = None
) -> tuple[list[WorkloadSpec], int]:
    """Return each case once, and how many from the first must run whatever the clock says: those
    that have every feature between them, and some more. Of the others every fourth comes from cheap
    to costly, then those between: a check that runs out of time leaves out cases of every size.
    With a `size`, the others come from small to large, for the large ones are to be left out."""
    ordered = sorted(dict.fromkeys(specs), key=size or cost)
    missing = set().union(*map(features, ordered))
    needed: list[WorkloadSpec] = []
    while missing:
        needed.append(max(ordered, key=lambda spec: len(features(spec) & missing)))
        missing -= features(needed[-1])
    turns = (ordered,) if size else (ordered[start::4] for start in (0, 2, 1, 3))
    rest = [spec for turn in turns for spec in turn if spec not in needed]
    return [*needed, *rest], min(len(ordered), max(FEWEST_CASES, len(needed)))


def shapes_of_models(spec: WorkloadSpec) -> set[tuple[str, Any]]:
    """Return what a case has of the shapes of models, and a defect may depend on."""
    length, shapes = min(spec.query_length, spec.key_length), set()
    if spec.heads >= MODEL_HEADS[0][0]:
        kind = "one" if spec.kv_heads == 1 else "as many" if spec.kv_heads == spec.heads else "few"
        shapes.add(("many heads", f"{kind} kv"))
    if spec.batch >= MODEL_BATCH:
        shapes.add(("large batch", True))
    if spec.causal and length >= MODEL_LENGTHS[-1]:
        shapes.add(("long causal", length >= MODEL_LENGTHS[0] - 1))
        shapes.add(("long causal, fewer queries", spec.query_length < spec.key_length))
    return shapes


def features(spec: WorkloadSpec) -> set[tuple[str, Any]]:
    """Return what a defect may depend on. A mask also does so together with the lengths: it hides
    rows of queries from all keys only where there are more queries than keys."""
    lengths = (spec.query_length, spec.key_length)
    queries = "fewer" if lengths[0] < lengths[1] else "more" if lengths[0] > lengths[1] else "equal"
    return {
        ("queries", queries),
        ("mask", f"causal, {queries}" if spec.causal else "full"),
        ("single", 1 in lengths),
        ("grouped", spec.heads > spec.kv_heads),
        ("tail", any(length % TILE for length in lengths)),
        ("dtype", spec.dtype),
        ("values", spec.values),
        ("layout", spec.layout),
        ("extras", spec.extras),
    } | shapes_of_models(spec)


def cost(spec: WorkloadSpec) -> int:
    """Return the rough cost of a case, in multiplications."""
    scores = spec.batch * spec.heads * spec.query_length * spec.key_length
    return scores * (spec.head_dim + 64)
