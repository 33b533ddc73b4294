"""FlashAttention CuTe, also called FlashAttention-4 (package flash-attn-4, flash_attn.cute).

Kernels written in CuTe DSL for Hopper and Blackwell, compiled at the first call. Grouped heads and
bottom-right causal masks; dq is added up with atomics unless it is asked not to.
"""

import importlib.util
from functools import partial

import torch

from assay.attention.sequence._fused_kernels import nvidia_refusal, readable, skip_fully_masked
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
REQUIRES = ("flash_attn",)
ACCEPTS = ("lse", "window")
LAYOUT = "BSHD"
DETERMINISTIC_BACKWARD = False

HEAD_DIMS = range(8, 257, 8)  # on Hopper
BLACKWELL_HEAD_DIMS = (*range(8, 129, 8), 256)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    lse: bool = False,
    window: int | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """q [B, M, H, D], k and v [B, N, G, D] -> [B, M, H, D], and with `lse` also [B, H, M]."""
    call = partial(_flash_attn, causal=causal, scale=scale, lse=lse, window=window)
    return skip_fully_masked(call, q, k, v, causal=causal, dim=1)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse FlashAttention-2, which installs under the same name, and what kernels lack."""
    installed = importlib.util.find_spec("flash_attn") is not None
    if not installed or importlib.util.find_spec("flash_attn.cute") is None:
        return "flash_attn here is not FlashAttention CuTe: flash_attn.cute is not installed"
    if spec.window and not spec.causal and spec.query_length > spec.key_length:
        return "a window with more queries than keys can leave queries that see nothing"
    major = torch.cuda.get_device_capability()[0] if torch.cuda.is_available() else 9
    if host.accelerators and major == 8:
        return "it has no backward pass for compute capability 8"
    head_dims = BLACKWELL_HEAD_DIMS if major in (10, 11) else HEAD_DIMS
    return nvidia_refusal(spec, host, dtypes=("float16", "bfloat16"), head_dims=head_dims)


def _flash_attn(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    lse: bool,
    window: int | None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The library's call, for queries that each see a key."""
    from flash_attn.cute.interface import flash_attn_func

    ends = (None, None) if window is None else (window - 1, 0 if causal else window - 1)
    out, normaliser = flash_attn_func(
        *(readable(tensor) for tensor in (q, k, v)),
        softmax_scale=scale,
        causal=causal,
        window_size=ends,
        return_lse=lse,
    )
    return (out, normaliser) if lse else out
