"""From what a workload is to its arrays: drawn from its seed, or read from a store of captures."""

from assay.workloads import synthetic
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


def make(spec: WorkloadSpec) -> Workload:
    """The arrays of a workload; the same bits whenever and wherever it is called."""
    if spec.captured:
        from assay.captures import captured

        return captured.load(spec)
    return synthetic.draw(spec)
