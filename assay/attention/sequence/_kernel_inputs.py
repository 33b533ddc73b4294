"""What fused kernels want of their inputs: whole aligned rows, and no query that sees nothing.

A copy is made only of a tensor that such a kernel could not read as it lies; arrays that a
workload is timed with never need one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.functional import pad

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

ALIGNMENT_BYTES = 16  # of vector loads, and of the strides that TMA and cuDNN take


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy where rows are not contiguous, not aligned, or share memory."""
    steps = [step for step, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1]
    spread = tensor.shape[-1] > 1 and tensor.stride(-1) != 1
    if spread or 0 in steps or (tensor.device.type != "cpu" and not _aligned(tensor, steps)):
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor


def _aligned(tensor: torch.Tensor, steps: list[int]) -> bool:
    if tensor.data_ptr() % ALIGNMENT_BYTES:
        return False
    size = tensor.element_size()
    # Rows of an odd size are the head dimension's doing; a copy would not change them.
    return tensor.is_contiguous() or not any(n * size % ALIGNMENT_BYTES for n in steps if n > 1)


def apart_from_blind(
    attention: Callable[..., Any],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    dim: int,
) -> Any:
    """`attention(q, k, v)` of those queries that see a key, zeros for the others.

    Causal with more queries than keys, the first queries see nothing: libraries give NaN there,
    or refuse. `dim` is the axis of the sequence. Where `attention` gives an LSE as well, [B, H, M],
    that of a blind query is -inf.
    """
    blind = q.shape[dim] - k.shape[dim]
    if not causal or blind <= 0:
        return attention(q, k, v)
    unseeing, seeing = q.split((blind, k.shape[dim]), dim=dim)
    found = attention(seeing, k, v)
    out, *lse = found if isinstance(found, tuple) else (found,)
    out = torch.cat((torch.zeros_like(unseeing), out), dim=dim)
    return (out, pad(lse[0], (blind, 0), value=float("-inf"))) if lse else out


def nvidia_refusal(
    spec: WorkloadSpec, host: Host, *, dtypes: Sequence[str], head_dims: Sequence[int]
) -> str | None:
    """Why a library of NVIDIA kernels cannot run this workload, going by these limits."""
    if not host.accelerators or host.accelerators[0].kind != "cuda":
        return "it has kernels for NVIDIA GPUs only"
    if spec.dtype not in dtypes:
        return f"dtype {spec.dtype} is not one of {', '.join(dtypes)}"
    if spec.head_dim not in head_dims:
        named = [str(dim) for dim in head_dims]
        named = named if len(named) < 5 else [*named[:2], "...", named[-1]]
        return f"head_dim {spec.head_dim} is not one of {', '.join(named)}"
    return None
