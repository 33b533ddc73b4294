"""Several new tokens: each sees the keys up to its own, which is one of the last."""

from dataclasses import replace

from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.decode.cases import DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_CAUSE = "the new tokens are not the last of the keys: token i of T sees keys up to length - T + i"


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return few new tokens and many, behind keys and with none before them."""
    pairs = ((1, 33), (2, 33), (16, 16), (16, 65), (2, 129))
    lengths = [{"query_length": new, "key_length": keys} for new, keys in pairs]
    return generator.by_turns(*({"group": 2, **each} for each in lengths))


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE of all new tokens."""
    comparisons = judge.compare_forward(call)
    cause = None if all(c.holds for c in comparisons) else _cause(call, workload.spec)
    return [judge.worst("new_tokens", comparisons, cause=cause)]


def _cause(call: DecodeSubject, spec: WorkloadSpec) -> str | None:
    """The cause, where a single new token behind the same keys is right."""
    single = call.on(make(replace(spec, query_length=1)))
    right = all(c.holds for c in judge.compare_forward(single))
    return _CAUSE if right and spec.query_length > 1 else None
