"""Numbers of keys around the tiles of kernels, down to a single key; many keys, a large batch."""

from assay.correctness import judge
from assay.correctness.decode.cases import BATCH, KEYS, LONG, DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return one new token behind each number of keys, and in a large batch."""
    long = {"key_length": LONG, "batch": 1, "heads": 4, "kv_heads": 1}
    many = (long, {"key_length": 33, "batch": BATCH})
    return generator.by_turns(*({"key_length": keys} for keys in KEYS), *many)


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE with float64 on what the cache gives back."""
    return [judge.worst("tails", judge.compare_forward(call))]
