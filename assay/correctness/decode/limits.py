"""Search for limits of a decode kernel: keys in multiples, widths, groups, new tokens, sequences.

As for sequences (correctness/domain.py), a clean refusal is a limit. Each is looked for by itself,
from a step that runs, and every case is brought inside them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from assay.attention.limits import WorkloadLimits, nearest
from assay.correctness.decode.cases import DecodeCases
from assay.correctness.limit_search import LimitSearch, Steps
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec

_KEYS = (113, 128, 64, 256, 512, 1024)  # of a step that may run
_WIDTHS = (32, 96, 256, 512, 576)  # of a head or row, beside those of the cases
_GROUPS = (4, 1, 2, 3, 8)
_NEW = (1, 2, 3, 16)
_BATCHES = (2, 1, 3, 4)
_LONGEST = 1024  # keys
_LOOKS: tuple[dict[str, Any], ...] = (
    {"key_length": 1},
    {"key_length": 129, "group": 1},
    {"key_length": 1023, "group": 2},
    {"query_length": 16, "key_length": 65, "group": 8},
    {"query_length": 3, "batch": 3, "group": 3},
    {"query_length": 2, "batch": 4},
)


@dataclass(frozen=True, kw_only=True)
class DecodeLimits(WorkloadLimits):
    """Steps that a decode kernel takes; its lengths are numbers of keys."""

    new_tokens: tuple[int, ...] = ()
    batches: tuple[int, ...] = ()

    @property
    def words(self) -> dict[str, str]:
        """Each limit in words that follow "it takes"."""
        texts = {
            "lengths": (
                f"up to {self.any_up_to} keys, or multiples of {self.lengths}, only"
                if self.any_up_to
                else f"multiples of {self.lengths} keys only"
            ),
            "shortest": f"no fewer than {self.shortest} keys",
            "longest": f"no more than {self.longest} keys",
            "most_queries": (
                f"no more than {self.most_queries} new tokens"
                if self.most_queries > 1
                else "a single new token only"
            ),
            "new_tokens": f"{', '.join(map(str, self.new_tokens))} new tokens only",
            "batches": f"batches of {', '.join(map(str, self.batches))} only",
        }
        stated = self.as_dict
        return super().words | {name: text for name, text in texts.items() if name in stated}

    def fitted(self, spec: WorkloadSpec, turn: int = 0) -> WorkloadSpec:
        """The nearest step inside; kv heads stay as they are."""
        group, new = spec.heads // spec.kv_heads, spec.query_length
        whole = replace(spec, query_length=spec.key_length)
        inside = super().fitted(whole, turn) or whole
        return replace(
            inside,
            batch=nearest(self.batches or (spec.batch,), spec.batch),
            heads=nearest(self.groups or (group,), group) * spec.kv_heads,
            kv_heads=spec.kv_heads,
            query_length=min(
                nearest(self.new_tokens or (new,), new), inside.key_length, self.most_queries or new
            ),
        )


def find(name: str, bind: Callable[[WorkloadSpec], DecodeSubject], generator: DecodeCases) -> Steps:
    """Yield what is called next; returns the limits, and the refusal that showed each."""
    search = LimitSearch(name=name, bind=bind, limits=DecodeLimits())
    base = yield from _base(search, generator)
    if base is not None and (yield from _any_refused(search, generator)):
        yield from _all_limits(search, base, generator)
    return search.limits, search.refusals


def _base(search: LimitSearch[DecodeLimits], generator: DecodeCases) -> Steps:
    """Returns the plainest step that is not refused; None where all are."""
    choices = product(
        *map(enumerate, (_KEYS, _widths(generator), generator.dtypes, _GROUPS, _BATCHES[:2]))
    )
    for choice in sorted(choices, key=lambda choice: sum(index for index, _ in choice)):
        keys, width, dtype, group, batch = (value for _, value in choice)
        spec = generator.spec(
            group=group, key_length=keys, head_dim=width, dtype=dtype, batch=batch
        )
        if not (yield from search.refused(spec)):
            return spec
    return None


def _any_refused(search: LimitSearch[DecodeLimits], generator: DecodeCases) -> Steps:
    for number, changes in enumerate(_LOOKS):
        if (yield from search.refused(generator.spec(number, **changes))):
            return True
    return False


def _all_limits(
    search: LimitSearch[DecodeLimits], base: WorkloadSpec, generator: DecodeCases
) -> Steps:
    """Look for each limit by itself."""

    def several(name: str, values: Sequence[Any], field: str) -> Steps:
        yield from search.choice(name, [replace(base, **{field: v}) for v in values], values)

    widths, kv_heads = _widths(generator), base.kv_heads
    yield from several("dtypes", generator.dtypes, "dtype")
    yield from several("head_dims", sorted(widths), "head_dim")
    yield from several("new_tokens", _NEW, "query_length")
    yield from _most_new_tokens(search, base)
    yield from several("batches", sorted(_BATCHES), "batch")
    groups = [replace(base, heads=group * kv_heads) for group in sorted(_GROUPS)]
    yield from search.choice("groups", groups, sorted(_GROUPS))
    yield from search.multiples(
        lambda keys: replace(base, key_length=keys), base.key_length, longest=_LONGEST
    )


def _most_new_tokens(search: LimitSearch[DecodeLimits], base: WorkloadSpec) -> Steps:
    """Keep how many new tokens are taken, where it is all up to some number."""
    taken = search.limits.new_tokens
    if not taken or taken != _NEW[: len(taken)]:
        return
    text = search.refusals.pop("new_tokens")
    search.limits = replace(search.limits, new_tokens=())
    ends = (taken[-1], _NEW[len(taken)])
    most = yield from search.edge(lambda count: replace(base, query_length=count), *ends)
    search.keep("most_queries", most, text)


def _widths(generator: DecodeCases) -> tuple[int, ...]:
    return tuple(dict.fromkeys((*generator.widths, *_WIDTHS)))
