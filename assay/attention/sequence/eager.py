"""Attention the plain way: the whole score matrix, softmax in float32."""

from functools import partial

import torch

from assay.attention.sequence._visibility import visibility_mask
from assay.attention.tensor_bytes import (
    FLOAT32_BYTES,
    Held,
    gradient_bytes,
    is_half,
    largest,
    repeated_kv_bytes,
    score_count,
)
from assay.records.schema import ELEMENT_BYTES
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import query_bytes

FRAMEWORK = "torch"
ACCEPTS = ("mask", "lengths", "window", "lse", "cu_seqlens")


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    mask: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
    window: int | None = None,
    cu_seqlens: tuple[torch.Tensor, torch.Tensor] | None = None,
    lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]; memory grows with M x N."""
    group = q.shape[1] // k.shape[1]
    # For a single query head in each group, repeat_interleave would copy all the same.
    keys, values = (x.repeat_interleave(group, dim=1) if group > 1 else x for x in (k, v))
    # Scaled before it is rounded: unscaled, a score may be beyond what float16 can hold.
    products = torch.baddbmm(
        q.new_zeros(()), q.flatten(0, 1), keys.flatten(0, 1).mT, beta=0, alpha=scale
    )
    scores = products.unflatten(0, q.shape[:2]).float()  # [B, H, M, N]
    visible = visibility_mask(
        *scores.shape[-2:],
        arange=partial(torch.arange, device=q.device),
        causal=causal,
        lengths=lengths,
        window=window,
        mask=mask,
        cu_seqlens=cu_seqlens,
    )
    scores = scores.masked_fill(~visible, float("-inf"))
    # A row that sees nothing would be 0/0; masking its weights leaves zeros behind.
    fully_masked = ~visible.any(dim=-1, keepdim=True)  # [B or 1, H or 1, M, 1]
    weights = scores.masked_fill(fully_masked, 0.0).softmax(dim=-1).masked_fill(fully_masked, 0.0)
    out = weights.to(v.dtype) @ values
    return (out, scores.detach().logsumexp(dim=-1)) if lse else out


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> Held:
    """Bytes above the inputs at the peak: while positions are compared, during softmax, when
    the output is made, or at the end of the backward. `products` lives as long as the call."""
    count, repeated = score_count(spec), repeated_kv_bytes(spec)
    pairs, out = spec.query_length * spec.key_length, query_bytes(spec)
    visible = pairs * (spec.batch if spec.padded or spec.masked else 1)  # of one byte each
    whole = FLOAT32_BYTES * count
    rounded = ELEMENT_BYTES[spec.dtype] * count if is_half(spec) else 0
    always = {
        "products": ELEMENT_BYTES[spec.dtype] * count,
        "repeated_keys": repeated,
        "repeated_values": repeated,
        "scores": whole,
        "seen": visible,
    }
    early = always | {"positions": 8 * pairs, "scores": whole if rounded else 0}
    kept = {"hidden": visible} if training else {}
    softmax = always | kept | {"shifted": whole, "softmax": whole}
    output = always | kept | {"weights": whole, "rounded_weights": rounded, "out": out}
    output |= {"softmax": whole} if training else {}
    if not training:
        return largest(early, softmax, output)
    end = {"grad_products": ELEMENT_BYTES[spec.dtype] * count, "out": out} | kept
    end |= gradient_bytes(spec) | {"grad_repeated": 2 * repeated, "repeated_keys": repeated}
    return largest(early, softmax, output, end)
