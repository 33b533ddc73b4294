"""Limits of an implementation: the workloads that it takes, as data.

A file states them as a literal, of which every entry may be left out:

    LIMITS = {
        "dtypes": ["float16", "bfloat16"],
        "head_dims": [64, 128],
        "widest": 128,  # head dimension
        "lengths": 128,  # of queries and of keys, a multiple of it
        "any_up_to": 128,  # and any length up to this: a block is as long as what is short
        "most_queries": 16,  # then the other lengths here are those of keys
        "shortest": 128,
        "longest": 8192,
        "queries": "equal",  # to keys; or "at most keys", "at least keys"
        "masks": "causal",  # or "full"
        "groups": [1, 2, 4],  # query heads for each kv head
        "contiguous": True,
        "batch_heads": 65535,  # the most batch entries x query heads
    }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from assay.errors import BadInput
from assay.workloads.spec import DTYPES, MASKS, WorkloadSpec

CONTIGUOUS = {"plain", "offset", "kvstacked"}  # layouts of arrays without gaps
QUERIES = ("equal", "at most keys", "at least keys")


@dataclass(frozen=True, kw_only=True)
class WorkloadLimits:
    """Workloads that an implementation takes; an empty tuple, zero or an empty word is no limit."""

    dtypes: tuple[str, ...] = ()
    head_dims: tuple[int, ...] = ()
    widest: int = 0
    lengths: int = 1
    any_up_to: int = 0
    most_queries: int = 0
    shortest: int = 1
    longest: int = 0
    queries: str = ""
    masks: str = ""
    groups: tuple[int, ...] = ()
    contiguous: bool = False
    batch_heads: int = 0

    @property
    def as_dict(self) -> dict[str, Any]:
        """The limits that there are, as a file states them."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        usual = {item.name: item.default for item in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value != usual[name]
        }

    def refusal(self, spec: WorkloadSpec) -> str | None:
        """The limit that a workload is beyond; None for one inside."""
        words = self.words
        return next((words[name] for name in words if not self._holds(name, spec)), None)

    @property
    def words(self) -> dict[str, str]:
        """Each limit in words that follow "it takes"."""
        groups = ", ".join(map(str, self.groups))
        texts = {
            "dtypes": f"{' and '.join(self.dtypes)} only",
            "head_dims": f"head dimensions of {', '.join(map(str, self.head_dims))} only",
            "widest": f"head dimensions of at most {self.widest}",
            "lengths": (
                f"lengths up to {self.any_up_to}, or multiples of {self.lengths}, only"
                if self.any_up_to
                else f"lengths that are multiples of {self.lengths} only"
            ),
            "most_queries": (
                f"no more than {self.most_queries} queries"
                if self.most_queries > 1
                else "a single query only"
            ),
            "shortest": f"no fewer than {self.shortest} tokens",
            "longest": f"no more than {self.longest} tokens",
            "queries": {
                "equal": "as many queries as keys only",
                "at most keys": "no more queries than keys",
                "at least keys": "no fewer queries than keys",
            }.get(self.queries, ""),
            "masks": f"the mask {self.masks} only",
            "groups": (
                "one query head for each kv head only"
                if self.groups == (1,)
                else f"groups of {groups} query heads only"
            ),
            "contiguous": "contiguous arrays only",
            "batch_heads": f"no more than {self.batch_heads:,} batch entries x heads",
        }
        return {name: texts[name] for name in self.as_dict if name in texts}

    def fitted(self, spec: WorkloadSpec, turn: int = 0) -> WorkloadSpec | None:
        """The nearest workload inside; None where what it is about lies outside. Where several are
        as near, `turn` chooses."""
        if self.contiguous and not self._holds("contiguous", spec):
            return None
        changes: dict[str, Any] = {}
        if self.dtypes and spec.dtype not in self.dtypes:
            changes["dtype"] = self.dtypes[turn % len(self.dtypes)]
        if self.head_dims:
            widest = self.widest or max(self.head_dims)
            narrow = [head_dim for head_dim in self.head_dims if head_dim <= widest]
            changes["head_dim"] = nearest(narrow, spec.head_dim)
        elif self.widest:
            changes["head_dim"] = min(spec.head_dim, self.widest)
        if self.masks:
            changes["causal"] = self.masks == MASKS[0]
        if self.groups:
            group = nearest(self.groups, spec.heads // spec.kv_heads)
            heads = spec.kv_heads * group if group > 1 else spec.heads
            changes |= {"heads": heads, "kv_heads": heads // group}
        if self.batch_heads:
            heads = changes.get("heads", spec.heads)
            changes["batch"] = max(1, min(spec.batch, self.batch_heads // heads))
        keys = self._length(spec.key_length)
        queries = min(spec.query_length, self.most_queries) or self._length(spec.query_length)
        if self.queries == "equal":
            queries = keys = (queries, keys)[0 if self.most_queries else turn % 2]
        elif (self.queries == "at most keys" and queries > keys) or (
            self.queries == "at least keys" and queries < keys
        ):
            queries, keys = keys, queries
        elif queries == keys and spec.query_length != spec.key_length and not self.most_queries:
            most, least = ("most" in self.queries, "least" in self.queries)
            fewer = most or (spec.query_length < spec.key_length and not least)
            queries, keys = self._apart(keys, fewer=fewer)
        return replace(spec, query_length=queries, key_length=keys, **changes)

    def _length(self, length: int) -> int:
        if max(length, self.shortest) <= self.any_up_to:
            return max(length, self.shortest)
        whole = -(-max(length, self.shortest) // self.lengths) * self.lengths
        return min(whole, self.longest // self.lengths * self.lengths) if self.longest else whole

    def _apart(self, length: int, *, fewer: bool) -> tuple[int, int]:
        """Return fewer queries than keys or more, where rounding has made them the same `length`:
        the one is a multiple longer, or shorter where that is too long; both are `length` where
        neither is inside."""
        longer = -(-(length + 1) // self.lengths) * self.lengths
        if self.longest and longer > self.longest:
            length, longer = max(length - self.lengths, self.shortest), length
            length = length if self._is_length(length) else longer
        return (length, longer) if fewer else (longer, length)

    def _is_length(self, length: int) -> bool:
        return not length % self.lengths or length <= self.any_up_to

    def _holds(self, name: str, spec: WorkloadSpec) -> bool:
        queries, keys = spec.query_length, spec.key_length
        lengths = (keys,) if self.most_queries else (queries, keys)
        match name:
            case "dtypes":
                return spec.dtype in self.dtypes
            case "head_dims":
                return spec.head_dim in self.head_dims
            case "widest":
                return spec.head_dim <= self.widest
            case "lengths":
                return all(map(self._is_length, lengths))
            case "most_queries":
                return queries <= self.most_queries
            case "shortest":
                return min(lengths) >= self.shortest
            case "longest":
                return max(lengths) <= self.longest
            case "queries":
                equal, fewer = queries == keys, queries < keys
                return equal or (self.queries != "equal" and fewer == ("most" in self.queries))
            case "masks":
                return spec.causal == (self.masks == MASKS[0])
            case "groups":
                return spec.heads // spec.kv_heads in self.groups
            case "batch_heads":
                return spec.batch * spec.heads <= self.batch_heads
        return {spec.layout_of(tensor) for tensor in "qkv"} <= CONTIGUOUS


def nearest(values: Sequence[int], wanted: int) -> int:
    """The value that is least far away, the smaller of two."""
    return min(values, key=lambda value: (abs(value - wanted), value))


def parse(stated: object, *, place: str) -> WorkloadLimits:
    """WorkloadLimits as a file states them; BadInput for what makes no sense."""
    known = {item.name: item.default for item in fields(WorkloadLimits)}
    if not isinstance(stated, Mapping):
        raise BadInput(
            f"{place}: LIMITS is {stated!r}; wanted a dict such as {{'lengths': 128}}, with some "
            f"of {', '.join(known)}"
        )
    values: dict[str, Any] = {}
    for name, value in stated.items():
        if name not in known:
            raise BadInput(f"{place}: LIMITS has {name!r}; wanted some of {', '.join(known)}")
        values[name] = _checked(name, value, place)
    limits = WorkloadLimits(**values)
    if problem := _contradiction(limits):
        raise BadInput(f"{place}: {problem}; change one of them, or leave it out")
    return limits


def _contradiction(limits: WorkloadLimits) -> str | None:
    """The limits that no workload can keep together, in words; None where some can."""
    stated, (shortest, longest) = limits.as_dict, (limits.shortest, limits.longest)
    if longest and shortest > longest:
        return f"no length is within LIMITS = {stated}: shortest {shortest} > longest {longest}"
    if longest and max(longest // limits.lengths * limits.lengths, limits.any_up_to) < shortest:
        return (
            f"no length is within LIMITS = {stated}: no multiple of {limits.lengths} is from "
            f"{shortest} to {longest}"
        )
    if limits.widest and limits.head_dims and min(limits.head_dims) > limits.widest:
        return (
            f"no head dimension is within LIMITS = {stated}: all head_dims are above widest "
            f"{limits.widest}"
        )
    return None


_WORDS = {"dtypes": DTYPES, "queries": QUERIES, "masks": MASKS}


def _checked(name: str, value: object, place: str) -> Any:
    """A stated limit in its own type."""
    wanted = {
        "dtypes": f"a list of some of {', '.join(DTYPES)}",
        "head_dims": "a list of whole numbers",
        "groups": "a list of whole numbers",
        "queries": f"one of {', '.join(QUERIES)}",
        "masks": f"one of {', '.join(MASKS)}",
        "contiguous": "True or False",
    }.get(name, "a whole number from 1")
    several = name in ("dtypes", "head_dims", "groups")
    items = list(value) if several and isinstance(value, list | tuple | set) else [value]
    if several and not isinstance(value, list | tuple | set):
        items = []
    if name in _WORDS:
        good = bool(items) and all(item in _WORDS[name] for item in items)
    elif name == "contiguous":
        good = isinstance(value, bool)
    else:
        good = bool(items) and all(
            isinstance(item, int) and not isinstance(item, bool) and item > 0 for item in items
        )
    if not good:
        raise BadInput(f"{place}: LIMITS has {name!r}: {value!r}; wanted {wanted}")
    return tuple(items) if several else value
