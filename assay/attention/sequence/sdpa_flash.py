"""torch's scaled_dot_product_attention, flash kernel only: FlashAttention-2, on a CPU torch's own.

On a GPU float16 and bfloat16 with head dimensions up to 256; dq is added up with atomics. The CPU
kernel of torch 2.13 adds up dv of half-precision inputs in half precision, 64 queries at a time,
which takes up to 0.6 of the accuracy budget at 512 queries and more.
"""

import torch
from torch.nn.attention import SDPBackend

from assay.attention import footprint
from assay.attention.sequence._sdpa import attend, refusal
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False
KERNELS = {"cuda": "flash_fwd", "cpu": "flash_attention"}

BACKEND = SDPBackend.FLASH_ATTENTION


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return attend(q, k, v, causal=causal, scale=scale, backend=BACKEND)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Asks torch, which knows the limits of its version on this device, but for one."""
    elements = spec.batch * spec.heads * spec.query_length * spec.head_dim
    if host.accelerators and elements >= 2**31:
        return "torch 2.11's flash kernel reads out of bounds in tensors of 2^31 elements and more"
    return refusal(spec, host, backend=BACKEND)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> dict[str, int]:
    """Bytes above the inputs. On a GPU the backward adds up dq in float32, with rows and head
    dimensions rounded up, and dk and dv for each query head (mha_bwd in torch's flash_api.cpp);
    on a CPU what its threads need is not among the parts."""
    more: dict[str, int] = {}
    if training and device != "cpu":
        rows = spec.batch * spec.heads * (-(-spec.query_length // 128) * 128)
        dim = -(-spec.head_dim // 32) * 32 if spec.head_dim <= 192 else 256
        more = {
            "wide_dq": footprint.FLOAT * rows * dim,
            "delta": footprint.FLOAT * rows,
        }
        repeated = 2 * footprint.repeated(spec)
        more |= {"dk_and_dv_of_each_head": repeated} if repeated else {}
    return footprint.tiled(spec, training=training, **more)
