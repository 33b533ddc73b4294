"""Output and LSE against the float64 reference, held to a budget that rounding explains."""

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

EVERY_WORKLOAD = True


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Random ones of every size, dtype and head layout."""
    return plan.random(plan.count // 2, "accuracy")


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """For out and lse the largest error, and the share of its budget it takes."""
    return judge.measurements(judge.forward(call))
