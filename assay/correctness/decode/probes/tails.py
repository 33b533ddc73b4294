"""Numbers of keys around the tiles of kernels, down to a single key."""

from assay.correctness import judge
from assay.correctness.decode.cases import KEYS, DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return one new token behind each number of keys."""
    return generator.by_turns(*({"key_length": keys} for keys in KEYS))


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE with float64 on what the cache gives back."""
    return [judge.worst("tails", judge.compare_forward(call))]
