"""FlashAttention-2 in plain PyTorch: online softmax over key tiles, backward by recomputation.

Dao, "FlashAttention-2" (arXiv 2307.08691), algorithms 1 and 2. Saved for the backward pass are
q, k, v, the output and the log-sum-exp of each row; a score exists only while its tile is worked
on, and all sums are float32. B batch, H query heads, G kv heads, R = H / G, M queries, N keys,
D head dimension.
"""

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from assay.attention import footprint
from assay.attention.sequence.flash2_torch.tiles import (
    KEY_TILE,
    QUERY_TILE,
    Setting,
    by_kv_head,
    key_tiles,
    query_tiles,
)
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import key_bytes

FRAMEWORK = "torch"
ACCEPTS = ("lse", "lengths", "window")

BLIND = float("-inf")  # the log-sum-exp of a query that sees no key


class FlashAttention2(torch.autograd.Function):
    """`FlashAttention2.apply(q, k, v, is_causal)` for [B, S, D] or [B, H, S, D]."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        is_causal: bool = False,
        setting: Setting | None = None,
    ) -> torch.Tensor:
        """`setting` says more than `is_causal` can; without it the scale is 1 / sqrt(D)."""
        setting = setting or Setting(causal=is_causal, scale=q.shape[-1] ** -0.5)
        return _forward(ctx, q, k, v, setting)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return *_backward(ctx, grad_out), None, None


class FlashAttention2Lse(torch.autograd.Function):
    """The same with the log-sum-exp of each row as a second, not differentiable output."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, setting: Setting
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = _forward(ctx, q, k, v, setting)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, grad_out: torch.Tensor, _: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        return *_backward(ctx, grad_out), None


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
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D], and with `lse` also [B, H, M]."""
    setting = Setting(causal=causal, scale=scale, window=window, lengths=lengths)
    if lse:
        return FlashAttention2Lse.apply(q, k, v, setting)
    return FlashAttention2.apply(q, k, v, causal, setting)


def _forward(
    ctx: FunctionCtx, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, setting: Setting
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and log-sum-exp; leaves in `ctx` what the backward pass needs."""
    heads, keys, values = by_kv_head(q, k, v)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:-1], dtype=keys.dtype, device=q.device)
    heads_out, heads_lse = out.view(heads.shape), lse.view(heads.shape[:-1])
    for rows, (queries,) in query_tiles(heads, dtype=keys.dtype):
        highest = queries.new_full((*queries.shape[:-1], 1), BLIND)
        total, weighted = torch.zeros_like(highest), torch.zeros_like(queries)
        for columns, scores in key_tiles(queries, keys, rows, heads.shape[3], setting):
            higher = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
            # A row that has seen nothing yet keeps zero weights, not exp(-inf + inf).
            anchor = higher.masked_fill(higher == BLIND, 0.0)
            weights = scores.sub_(anchor).exp_()
            shrink = (highest - anchor).exp_()
            total = total * shrink + weights.sum(dim=-1, keepdim=True)
            weighted = weighted * shrink + weights @ values[:, :, columns]
            highest = higher
        tile = heads_out[:, :, :, rows]
        tile.copy_((weighted / total.masked_fill(total == 0.0, 1.0)).view(tile.shape))
        anchor = highest.masked_fill(highest == BLIND, 0.0)
        heads_lse[:, :, :, rows] = (anchor + total.log()).view(tile.shape[:-1])
    ctx.setting = setting
    ctx.save_for_backward(q, k, v, out, lse)
    return out, lse


def _backward(ctx: FunctionCtx, grad_out: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Gradients of q, k and v; the probabilities are computed again from the log-sum-exp."""
    q, k, v, out, lse = ctx.saved_tensors
    setting: Setting = ctx.setting
    heads, keys, values = by_kv_head(q, k, v)
    # A row that sees nothing has probabilities exp(score - inf) = 0.
    normaliser = lse.masked_fill(lse == BLIND, float("inf")).view(*heads.shape[:-1], 1)
    tensors = (heads, grad_out.reshape(heads.shape), out.view(heads.shape), normaliser)
    dq = torch.empty(heads.shape, dtype=q.dtype, device=q.device)
    dk, dv = torch.zeros_like(keys), torch.zeros_like(values)
    for rows, (queries, grads, outs, lses) in query_tiles(*tensors, dtype=keys.dtype):
        delta = (grads * outs).sum(dim=-1, keepdim=True)
        tile_dq = torch.zeros_like(queries)
        for columns, scores in key_tiles(queries, keys, rows, heads.shape[3], setting):
            probabilities = scores.sub_(lses).exp_()
            dv[:, :, columns] += probabilities.mT @ grads
            grad_p = grads @ values[:, :, columns].mT
            grad_s = grad_p.sub_(delta).mul_(probabilities).mul_(setting.scale)
            dk[:, :, columns] += grad_s.mT @ queries
            tile_dq += grad_s @ keys[:, :, columns]
        tile = dq[:, :, :, rows]
        tile.copy_(tile_dq.view(tile.shape))
    return dq.view(q.shape), dk.to(k.dtype).view(k.shape), dv.to(v.dtype).view(v.shape)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> dict[str, int]:
    """Bytes above the inputs when most is held: while a further tile of scores is made and masked,
    while a tile is added up, or when dk and dv are rounded. k and v are copied in half precision.
    """
    rows, keys = min(QUERY_TILE, spec.query_length), min(KEY_TILE, spec.key_length)
    per_row = footprint.FLOAT * spec.batch * spec.heads * rows
    tile, strip = per_row * keys, per_row * spec.head_dim  # of scores; of q, dO, out or dq
    masked = spec.causal or spec.window or spec.padded
    held = footprint.tiled(spec, training=training)
    # Positions are int64, and what is hidden by them is put together from two booleans.
    mask = {"mask_tile": 10 * rows * keys if masked else 0}
    wide = 2 * footprint.wide(key_bytes(spec), spec) if footprint.half(spec) else 0
    held["wide_keys_and_values"] = wide
    strips = strip * (footprint.half(spec) or spec.heads != spec.kv_heads)  # else views of q ...
    before = 1 if spec.key_length > keys or spec.query_length > rows else 0  # tiles left over
    if not training:
        making = {"score_tiles": (1 + before) * tile, "row_tiles": strips + strip}
        adding = {"score_tiles": tile, "row_tiles": strips + 4 * strip}
        return footprint.largest(held | making | mask, held | adding)
    held["normaliser"] = held["lse"]
    held["wide_dk_and_dv"] = wide
    making = {"score_tiles": (1 + 2 * before) * tile, "row_tiles": 3 * strips + strip}
    unrounded = {"dk": 0, "dv": 0} if wide else {}
    rounding = {"score_tiles": 2 * tile, "row_tiles": 3 * strips + strip}
    return footprint.largest(held | making | mask | unrounded, held | rounding)
