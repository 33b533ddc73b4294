"""Output and LSE against the float64 reference, within a budget that rounding explains."""

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

EVERY_WORKLOAD = True


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return random cases of every size, dtype and head layout."""
    return generator.random(generator.count // 2, "accuracy")


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Measure the largest error of out and lse, and the share of its budget."""
    return judge.measurements(judge.compare_forward(call))
