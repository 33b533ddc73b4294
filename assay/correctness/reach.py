"""Reach of a check: the largest workloads on which its probes compared values, by what grows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.records.schema import Measurement
from assay.records.verdicts import REACH
from assay.workloads.spec import DTYPES, WorkloadSpec


def reach(subject: str, passing: Mapping[str, Sequence[WorkloadSpec]]) -> Iterable[Measurement]:
    """Yield the reach of the cases that passed, by the passes that they are evidence for; none
    where nothing passed."""
    if not any(passing.values()):
        return
    tokens = {
        name: max(min(spec.query_length, spec.key_length) for spec in specs)
        for name, specs in passing.items()
        if specs
    }
    specs = list(dict.fromkeys(spec for each in passing.values() for spec in each))
    missing = [name for name, each in passing.items() if not each]
    yield _record(subject, specs, {"tokens": tokens}, missing)


def decode_reach(subject: str, passing: Sequence[WorkloadSpec]) -> Iterable[Measurement]:
    """Yield the reach of the steps of decoding that passed; none where nothing did."""
    if passing:
        keys, new = (max(getattr(s, f"{n}_length") for s in passing) for n in ("key", "query"))
        yield _record(subject, list(dict.fromkeys(passing)), {"keys": keys, "new_tokens": new}, [])


def _record(
    subject: str, specs: Sequence[WorkloadSpec], lengths: dict[str, Any], missing: list[str]
) -> Measurement:
    dtypes = {spec.dtype for spec in specs}
    data = lengths | {
        "heads": _most_heads({(spec.heads, spec.kv_heads) for spec in specs}),
        "batch": max(spec.batch for spec in specs),
        "head_dim": max(spec.head_dim for spec in specs),
        "dtypes": [dtype for dtype in DTYPES if dtype in dtypes],
        "not_reached": [*missing, *(dtype for dtype in DTYPES if dtype not in dtypes)],
    }
    return Measurement(
        subject=subject, metric=REACH, value=float(len(specs)), unit="workloads", data=data
    )


def _most_heads(pairs: set[tuple[int, int]]) -> list[list[int]]:
    """Pairs of query and kv heads of which no other has as many of both, most heads first."""
    most = [
        pair
        for pair in pairs
        if not any(pair != other and pair[0] <= other[0] and pair[1] <= other[1] for other in pairs)
    ]
    return [list(pair) for pair in sorted(most, reverse=True)]
