"""torch's scaled_dot_product_attention, flash kernel only: FlashAttention-2, on a CPU torch's own.

On a GPU float16 and bfloat16 with head dimensions up to 256; dq is added up with atomics. The CPU
kernel of torch 2.13 adds up dv of half-precision inputs in half precision, 64 queries at a time,
which takes up to 0.6 of the accuracy budget at 512 queries and more.
"""

import torch
from torch.nn.attention import SDPBackend

from assay.attention import footprint
from assay.attention.sequence._flash_splits import splits
from assay.attention.sequence._sdpa import attend, refusal
from assay.host import Host
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import query_bytes

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
    """Bytes above the inputs. With few queries a GPU works on parts of the keys, each with an
    output. Its backward turns out and dO to [B, M, H, D], adds up dq in float32 with rows and head
    dimensions rounded up, and dk and dv for each query head (torch's flash_api.cpp). On a CPU what
    its threads need is not among the parts."""
    held = footprint.tiled(spec, training=False)
    if device == "cpu":
        return footprint.tiled(spec, training=training)
    dim = -(-spec.head_dim // 32) * 32 if spec.head_dim <= 192 else 256
    forward = held | _parts(spec, dim=dim, device=device)
    if not training:
        return forward
    rows = spec.batch * spec.heads * (-(-spec.query_length // 128) * 128)
    turned = query_bytes(spec) if min(spec.heads, spec.query_length) > 1 else 0
    backward = footprint.tiled(
        spec,
        training=True,
        turned_out=0 if spec.layout == "transposed" else turned,
        turned_grad_out=turned,
        wide_dq=footprint.FLOAT * rows * dim,
        delta=footprint.FLOAT * rows,
        dk_and_dv_of_each_head=2 * footprint.repeated(spec),
    )
    return footprint.largest(forward, backward)


def _parts(spec: WorkloadSpec, *, dim: int, device: str) -> dict[str, int]:
    """What each part of the keys gives, where they are divided."""
    if device != "cuda" or not torch.cuda.is_available():
        return {}
    here = torch.cuda.get_device_properties(torch.cuda.current_device())
    parts = splits(spec, multiprocessors=here.multi_processor_count)
    lse = parts * footprint.row_floats(spec)
    return {"out_of_parts": lse * dim, "lse_of_parts": lse} if parts > 1 else {}
