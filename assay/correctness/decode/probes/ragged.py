"""Sequences of different lengths, NaN behind each: none of it may be seen."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from assay.correctness import judge
from assay.correctness.decode.cases import DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.subjects.outcome import Unsupported
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_CAUSE = "lengths are not kept to: keys behind the end of a sequence are read, or its last are not"


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return batches whose lengths are drawn, with one new token and with several."""
    if "lengths" not in generator.accepts:
        raise Unsupported("not run: its ACCEPTS does not name lengths")
    common = {"padded": True, "batch": 4, "group": 2}
    lengths = ((1, 65), (3, 40)) if generator.quick else ((1, 65), (3, 40), (1, 130))
    pairs = ({"query_length": new, "key_length": keys} for new, keys in lengths)
    return generator.by_turns(*({**common, **pair} for pair in pairs))


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare the lengths that were drawn, then none, one, the longest and one less."""
    spec = workload.spec
    last = spec.key_length
    edges = np.resize(np.array([0, last, 1, last - 1], np.int32), spec.batch)
    at_edges = call.on(replace(workload, spec=replace(spec, padded=True), lengths=edges))
    comparisons = [c for each in (call, at_edges) for c in judge.compare_forward(each)]
    cause = None if all(c.holds for c in comparisons) else _cause((call, at_edges))
    return [judge.worst("ragged", comparisons, cause=cause)]


def _cause(calls: Sequence[DecodeSubject]) -> str | None:
    """The cause, where whole sequences are right that repeat the keys of each to the end."""
    whole = [c for call in calls for c in judge.compare_forward(call.on(_whole(call.workload)))]
    return _CAUSE if all(c.holds for c in whole) else None


def _whole(workload: Workload) -> Workload:
    """Return sequences without lengths and with no other keys than those that were written."""
    assert workload.lengths is not None
    last = np.maximum(workload.lengths, 1)[:, None]
    index = (np.arange(workload.spec.key_length) % last)[:, None, :, None]
    arrays = {name: np.take_along_axis(getattr(workload, name), index, axis=2) for name in "kv"}
    return replace(workload, spec=replace(workload.spec, padded=False), lengths=None, **arrays)
