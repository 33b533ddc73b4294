"""Which records share a chart: those of one stage, dtype and mask.

Of the remaining parameters of a workload, those that are the same throughout are said once below
the chart; those that differ tell its series apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.records.schema import Record

_FACETED = ("key_length", "dtype", "causal", "mask")
_MASKS = {True: "causal", False: "full"}


@dataclass(frozen=True, kw_only=True)
class Facet:
    """Records that share a chart; each has a workload."""

    stage: str
    dtype: str
    mask: str
    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        return f"{self.stage}_{self.dtype}_{self.mask}"

    @property
    def title(self) -> str:
        return f"{self.stage}, {self.dtype}, {self.mask} attention"

    @property
    def shared(self) -> str:
        """The parameters that all its workloads have in common."""
        first = _parameters(self.records[0])
        return _said({name: first[name] for name in first if name not in self._differing})

    @property
    def short_names(self) -> dict[str, str]:
        """Each workload's name without the parts that all have; whole where that is ambiguous."""
        names = list(dict.fromkeys(r.workload.name for r in self.records if r.workload))
        common = set.intersection(*(set(name.split("_")) for name in names))
        short = {
            name: "_".join(part for part in name.split("_") if part not in common) for name in names
        }
        distinct = len(set(short.values())) == len(names) and all(short.values())
        return short if distinct else dict(zip(names, names, strict=True))

    def variant(self, record: Record) -> str:
        """The parameters that tell this record's series from others of its subject."""
        mine = _parameters(record)
        return _said({name: mine[name] for name in mine if name in self._differing})

    @property
    def _differing(self) -> set[str]:
        pairs = [_parameters(record).items() for record in self.records]
        every = {pair for items in pairs for pair in items}
        return {name for name, value in every if any((name, value) not in items for items in pairs)}


def facets(records: Sequence[Record]) -> list[Facet]:
    """The records that have a workload, by stage, dtype and mask, in their order."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.workload:
            spec = record.workload.spec
            mask = spec.get("mask") or _MASKS.get(spec.get("causal"), "unnamed")
            key = (record.stage, str(spec.get("dtype", "unnamed dtype")), str(mask))
            groups.setdefault(key, []).append(record)
    return [
        Facet(stage=stage, dtype=dtype, mask=mask, records=tuple(found))
        for (stage, dtype, mask), found in groups.items()
    ]


def _parameters(record: Record) -> dict[str, str]:
    assert record.workload is not None
    spec = record.workload.spec
    found = {name: str(value) for name, value in spec.items() if name not in _FACETED}
    if "query_length" in spec and spec["query_length"] == spec.get("key_length"):
        found["query_length"] = "as key_length"
    return found


def _said(parameters: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())
