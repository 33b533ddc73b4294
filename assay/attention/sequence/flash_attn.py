"""FlashAttention-2, the library (package flash-attn, flash_attn_func).

Grouped heads, bottom-right causal masks since 2.1, zeros for a query that sees nothing. It pads
head dimensions that are not multiples of 8. dq is added up with atomics unless it is asked not to.
"""

import importlib.util

import torch

from assay.attention.sequence._fused_kernels import nvidia_refusal, readable
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
REQUIRES = ("flash_attn",)
ACCEPTS = ("lse", "window")
LAYOUT = "BSHD"
DETERMINISTIC_BACKWARD = False


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
    from flash_attn import flash_attn_func

    # Both ends are inclusive, -1 is no end.
    ends = (-1, -1) if window is None else (window - 1, 0 if causal else window - 1)
    result = flash_attn_func(
        *(readable(tensor) for tensor in (q, k, v)),
        softmax_scale=scale,
        causal=causal,
        window_size=ends,
        return_attn_probs=lse,
    )
    if not lse:
        return result
    out, normaliser, _ = result
    # The library gives +inf for a fully masked query.
    return out, normaliser.masked_fill(normaliser == float("inf"), float("-inf"))


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse FlashAttention CuTe, which installs under the same name, and what kernels lack."""
    if importlib.util.find_spec("flash_attn_2_cuda") is None:
        return "flash_attn here is not FlashAttention-2: its flash_attn_2_cuda is not installed"
    if spec.window > spec.key_length and not spec.causal and spec.query_length > spec.key_length:
        return (
            "it takes a window wider than the keys for none, also where queries stand before them"
        )
    return nvidia_refusal(spec, host, dtypes=("float16", "bfloat16"), head_dims=range(1, 257))
