"""Attention the plain way: the whole score matrix, softmax in float32."""

import torch

from assay.attention import footprint
from assay.attention.sequence._visible import visible
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import ELEMENT_BYTES, query_bytes

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
    seen = visible(
        *scores.shape[-2:],
        device=q.device,
        causal=causal,
        lengths=lengths,
        window=window,
        mask=mask,
        cu_seqlens=cu_seqlens,
    )
    scores = scores.masked_fill(~seen, float("-inf"))
    # A row that sees nothing would be 0/0; masking its weights leaves zeros behind.
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(blind, 0.0).softmax(dim=-1).masked_fill(blind, 0.0)
    out = weights.to(v.dtype) @ values
    return (out, scores.detach().logsumexp(dim=-1)) if lse else out


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> dict[str, int]:
    """Bytes above the inputs when most is held: while positions are compared, during softmax, when
    the output is made, or at the end of the backward. `products` lives as long as the call."""
    count, repeated = footprint.scores(spec), footprint.repeated(spec)
    pairs, out = spec.query_length * spec.key_length, query_bytes(spec)
    seen = pairs * (spec.batch if spec.padded or spec.masked else 1)  # of one byte each
    whole = footprint.FLOAT * count
    rounded = ELEMENT_BYTES[spec.dtype] * count if footprint.half(spec) else 0
    always = {
        "products": ELEMENT_BYTES[spec.dtype] * count,
        "repeated_keys": repeated,
        "repeated_values": repeated,
        "scores": whole,
        "seen": seen,
    }
    early = always | {"positions": 8 * pairs, "scores": whole if rounded else 0, "order": pairs}
    kept = {"hidden": seen} if training else {}
    softmax = always | kept | {"shifted": whole, "softmax": whole}
    output = always | kept | {"weights": whole, "rounded_weights": rounded, "out": out}
    output |= {"softmax": whole} if training else {}
    if not training:
        return footprint.largest(early, softmax, output)
    end = {"grad_products": ELEMENT_BYTES[spec.dtype] * count, "out": out} | kept
    end |= footprint.gradients(spec) | {"grad_repeated": 2 * repeated, "repeated_keys": repeated}
    return footprint.largest(early, softmax, output, end)
