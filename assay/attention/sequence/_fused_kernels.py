"""Inputs as fused kernels take them: whole aligned rows, and no fully masked queries.

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
    strides = [stride for stride, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1]
    strided = tensor.shape[-1] > 1 and tensor.stride(-1) != 1
    if strided or 0 in strides or (tensor.device.type != "cpu" and not _aligned(tensor, strides)):
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor


def _aligned(tensor: torch.Tensor, strides: list[int]) -> bool:
    if tensor.data_ptr() % ALIGNMENT_BYTES:
        return False
    size = tensor.element_size()
    # Rows of an odd size are the head dimension's doing; a copy would not change them.
    return tensor.is_contiguous() or not any(n * size % ALIGNMENT_BYTES for n in strides if n > 1)


def skip_fully_masked(
    attention: Callable[..., Any],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    dim: int,
) -> Any:
    """`attention(q, k, v)` of the queries that see a key, zeros for the others.

    Causal with more queries than keys, the first queries see nothing: libraries give NaN there,
    or refuse. `dim` is the axis of the sequence. Where `attention` gives an LSE as well, [B, H, M],
    that of a fully masked query is -inf.
    """
    masked = q.shape[dim] - k.shape[dim]
    if not causal or masked <= 0:
        return attention(q, k, v)
    masked_q, q = q.split((masked, k.shape[dim]), dim=dim)
    result = attention(q, k, v)
    out, *lse = result if isinstance(result, tuple) else (result,)
    out = torch.cat((torch.zeros_like(masked_q), out), dim=dim)
    return (out, pad(lse[0], (masked, 0), value=float("-inf"))) if lse else out


def nvidia_refusal(
    spec: WorkloadSpec, host: Host, *, dtypes: Sequence[str], head_dims: Sequence[int]
) -> str | None:
    """The reason why a library of NVIDIA kernels with these limits cannot run a workload."""
    if not host.accelerators or host.accelerators[0].kind != "cuda":
        return "it has kernels for NVIDIA GPUs only"
    if spec.dtype not in dtypes:
        return f"dtype {spec.dtype} is not one of {', '.join(dtypes)}"
    if spec.head_dim not in head_dims:
        named = [str(dim) for dim in head_dims]
        named = named if len(named) < 5 else [*named[:2], "...", named[-1]]
        return f"head_dim {spec.head_dim} is not one of {', '.join(named)}"
    return None
