"""A reason for which wrappers refuse a workload, beyond what LIMITS can say."""

from assay.workloads.spec import WorkloadSpec


def no_scale(spec: WorkloadSpec) -> str | None:
    """Refuse scales other than 1/sqrt(head_dim), for an upstream that has no argument for it."""
    return None if spec.scale_percent == 100 else "it has no argument for the scale"
