"""xFormers' memory_efficient_attention, with the kernel that xFormers picks (flash or CUTLASS).

Grouped heads it computes in the forward pass only, by its own documentation; they are refused.
"""

from functools import partial

import torch

from assay.attention.sequence._fused_kernels import nvidia_refusal, readable, skip_fully_masked
from assay.host import Host
from assay.workloads.spec import DTYPES, WorkloadSpec

FRAMEWORK = "torch"
REQUIRES = ("xformers",)
LAYOUT = "BSHD"
DETERMINISTIC_BACKWARD = False


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]."""
    call = partial(_memory_efficient, causal=causal, scale=scale)
    return skip_fully_masked(call, q, k, v, causal=causal, dim=1)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what its flash and CUTLASS operators do not share; CUTLASS takes float32."""
    if spec.heads != spec.kv_heads:
        return "it has no backward pass for grouped heads"
    return nvidia_refusal(spec, host, dtypes=DTYPES, head_dims=range(8, 257, 8))


def _memory_efficient(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """The library's call, for queries that each see a key."""
    from xformers.ops import memory_efficient_attention
    from xformers.ops.fmha.attn_bias import LowerTriangularFromBottomRightMask

    bias = LowerTriangularFromBottomRightMask() if causal else None
    tensors = (readable(tensor) for tensor in (q, k, v))
    return memory_efficient_attention(*tensors, attn_bias=bias, scale=scale)
