"""Several new tokens: each sees the keys up to its own, which is one of the last."""

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
    cause = _CAUSE if workload.spec.query_length > 1 else None
    return [judge.worst("new_tokens", judge.compare_forward(call), cause=cause)]
