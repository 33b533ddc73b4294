"""torch's scaled_dot_product_attention, cuDNN kernel only (NVIDIA GPUs).

float16 and bfloat16; head dimensions that are multiples of 8, up to 128 or 256 as torch and cuDNN
have it. torch gives cuDNN the top-left causal mask only: with fewer queries than keys, but more
than one, it is handed a mask in memory and skips no block.
"""

import torch
from torch.nn.attention import SDPBackend

from assay.attention import footprint
from assay.attention.sequence._sdpa import attend, refusal
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False
KERNELS = {"cuda": "cudnn"}

BACKEND = SDPBackend.CUDNN_ATTENTION


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return attend(q, k, v, causal=causal, scale=scale, backend=BACKEND)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Asks torch, which knows the limits of its version on this device."""
    return refusal(spec, host, backend=BACKEND)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> dict[str, int]:
    """Bytes above the inputs, without cuDNN's workspace; an LSE only in training."""
    held = footprint.tiled(spec, training=training)
    return held if training else {"out": held["out"]}
