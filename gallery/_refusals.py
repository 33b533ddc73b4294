"""Reasons for which wrappers refuse a workload, beyond what LIMITS can say.

Each is the `supports` of a wrapper, where need be with `functools.partial`.
"""

from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec


def no_scale(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse scales other than 1/sqrt(head_dim), for an upstream that has no argument for it."""
    return None if spec.scale_percent == 100 else "it has no argument for the scale"


def only_default_scale(upstream: Upstream, spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse an upstream that is missing or altered, then as `no_scale` does."""
    return upstream.refusal() or no_scale(spec, host)
