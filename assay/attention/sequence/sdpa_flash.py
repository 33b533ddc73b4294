"""torch's scaled_dot_product_attention, flash kernel only: FlashAttention-2, on a CPU torch's own.

On a GPU float16 and bfloat16 with head dimensions up to 256; dq is added up with atomics. The CPU
kernel of torch 2.13 adds up dv of half-precision inputs in half precision, 64 queries at a time:
from about 512 queries on that exceeds the accuracy budget by 2 to 25 %.
"""

import torch
from torch.nn.attention import SDPBackend

from assay.attention.sequence._sdpa import attend, refusal
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False

BACKEND = SDPBackend.FLASH_ATTENTION


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return attend(q, k, v, causal=causal, scale=scale, backend=BACKEND)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Asks torch, which knows the limits of its version on this device."""
    return refusal(spec, host, backend=BACKEND)
