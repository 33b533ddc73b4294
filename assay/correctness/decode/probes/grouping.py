"""Query heads that share a kv head: none, few and many of them."""

from assay.correctness import judge
from assay.correctness.decode.cases import GROUPS, DecodeCases
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.decode import DecodeSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


def cases(generator: DecodeCases) -> list[WorkloadSpec]:
    """Return each size of a group, with one new token and with two."""
    sizes = [{"group": group, "key_length": 40} for group in GROUPS]
    return generator.by_turns(*sizes, {"group": 3, "query_length": 2, "key_length": 40})


def measure(call: DecodeSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output and LSE of all heads."""
    return [judge.worst("grouping", judge.compare_forward(call))]
