"""torch's scaled_dot_product_attention, memory-efficient kernel only (CUTLASS; GPUs).

It takes float32 too. No grouped heads up to torch 2.13 (pytorch pull request 191085 adds them):
such a workload is refused, because a copy of k and v for every query head would be timed with it.
"""

import torch
from torch.nn.attention import SDPBackend

from assay.attention.sequence._sdpa import attend, refusal
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False

BACKEND = SDPBackend.EFFICIENT_ATTENTION


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return attend(q, k, v, causal=causal, scale=scale, backend=BACKEND)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Asks torch, which knows the limits of its version on this device."""
    return refusal(spec, host, backend=BACKEND)
