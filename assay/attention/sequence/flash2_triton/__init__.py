"""FlashAttention-2 in Triton, forward and backward, with lengths, windows and packed sequences.

The configuration of each kernel comes from a table (configs.py); `config` pins one by name. Without
a GPU the kernels run in Triton's interpreter, which is slow and for correctness only.
"""

import os

import torch

# Triton decides when a kernel is defined whether it is compiled or interpreted, so this is set
# before the kernels are imported. TRITON_INTERPRET=0 keeps them for compiling ahead of time.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

from assay.attention.sequence.flash2_triton.arguments import check, supports
from assay.attention.sequence.flash2_triton.configs import BY_NAME
from assay.attention.sequence.flash2_triton.operator import FlashAttention2, flash2
from assay.attention.tensor_bytes import Held, row_statistic_bytes, tiled_bytes
from assay.workloads.spec import WorkloadSpec

__all__ = ["CONFIGS", "FlashAttention2", "attention", "memory", "supports"]

FRAMEWORK = "torch"
REQUIRES = ("triton",)
ACCEPTS = ("lse", "lengths", "window", "cu_seqlens")
KERNELS = {"cuda": "^forward_kernel", "rocm": "^forward_kernel", "cpu": "assay::flash2_triton"}
CONFIGS = tuple(BY_NAME)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    lse: bool = False,
    lengths: torch.Tensor | None = None,
    window: int | None = None,
    cu_seqlens: tuple[torch.Tensor, torch.Tensor] | None = None,
    config: str | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D], or (output, normaliser [B, H, M]).

    Differentiable in q, k and v, also through the normaliser. `config` pins one kernel's
    configuration, the other kernels keep their own choice.
    """
    cu_q, cu_k = cu_seqlens if cu_seqlens is not None else (None, None)
    check(q, k, v, scale=scale, lengths=lengths, window=window, cu_q=cu_q, cu_k=cu_k)
    out, normaliser = flash2(q, k, v, causal, scale, window, lengths, cu_q, cu_k, config)
    return (out, normaliser) if lse else out


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> Held:
    """Bytes above the inputs: what a tiled kernel must keep, and delta in the backward."""
    held = tiled_bytes(spec, training=training)
    return held | ({"delta": row_statistic_bytes(spec)} if training else {})
