"""FlashAttention-2 in plain PyTorch: online softmax over key tiles, backward by recomputation.

Dao, "FlashAttention-2" (arXiv 2307.08691), algorithms 1 and 2. Saved for the backward pass are
q, k, v, the output and the log-sum-exp of each row; a score exists only while its tile is worked
on, and all sums are float32. B batch, H query heads, G kv heads, R = H / G, M queries, N keys,
D head dimension; a tile has m queries of all R heads, R * m rows, and n keys.
"""

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from assay.attention.sequence.flash2_torch.tiles import (
    KEY_TILE,
    QUERY_TILE,
    ScoreOptions,
    by_kv_head,
    key_tiles,
    query_tiles,
)
from assay.attention.tensor_bytes import (
    FLOAT32_BYTES,
    Held,
    float32_bytes,
    is_half,
    largest,
    tiled_bytes,
)
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import key_bytes

FRAMEWORK = "torch"
ACCEPTS = ("lse", "lengths", "window")

FULLY_MASKED = float("-inf")  # the log-sum-exp of a query that sees no key


class FlashAttention2(torch.autograd.Function):
    """`FlashAttention2.apply(q, k, v, is_causal)` for [B, S, D] or [B, H, S, D]."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        is_causal: bool = False,
        options: ScoreOptions | None = None,
    ) -> torch.Tensor:
        """`options` replace `is_causal`; without them the scale is 1 / sqrt(D)."""
        options = options or ScoreOptions(causal=is_causal, scale=q.shape[-1] ** -0.5)
        return _forward(ctx, q, k, v, options)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return *_backward(ctx, grad_out), None, None


class FlashAttention2Lse(torch.autograd.Function):
    """The same with the log-sum-exp of each row as a second, not differentiable output."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: ScoreOptions
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = _forward(ctx, q, k, v, options)
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
    options = ScoreOptions(causal=causal, scale=scale, window=window, lengths=lengths)
    if lse:
        return FlashAttention2Lse.apply(q, k, v, options)
    return FlashAttention2.apply(q, k, v, causal, options)


def _forward(
    ctx: FunctionCtx, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: ScoreOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and log-sum-exp; leaves in `ctx` what the backward pass needs."""
    heads, keys, values = by_kv_head(q, k, v)  # [B, G, R, M, D], [B, G, N, D] twice
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:-1], dtype=keys.dtype, device=q.device)
    heads_out, heads_lse = out.view(heads.shape), lse.view(heads.shape[:-1])
    for rows, (queries,) in query_tiles(heads, dtype=keys.dtype):  # queries [B, G, R * m, D]
        row_max = queries.new_full((*queries.shape[:-1], 1), FULLY_MASKED)  # [B, G, R * m, 1]
        row_sum, weighted = torch.zeros_like(row_max), torch.zeros_like(queries)
        for columns, scores in key_tiles(queries, keys, rows, heads.shape[3], options):
            new_max = torch.maximum(row_max, scores.amax(dim=-1, keepdim=True))
            # A row that has seen nothing yet keeps zero weights, not exp(-inf + inf).
            subtracted = new_max.masked_fill(new_max == FULLY_MASKED, 0.0)
            weights = scores.sub_(subtracted).exp_()  # [B, G, R * m, n]
            # Online softmax: what was summed under the old maximum is rescaled to the new one.
            rescale = (row_max - subtracted).exp_()
            row_sum = row_sum * rescale + weights.sum(dim=-1, keepdim=True)
            weighted = weighted * rescale + weights @ values[:, :, columns]
            row_max = new_max
        tile = heads_out[:, :, :, rows]  # [B, G, R, m, D]
        tile.copy_((weighted / row_sum.masked_fill(row_sum == 0.0, 1.0)).view(tile.shape))
        subtracted = row_max.masked_fill(row_max == FULLY_MASKED, 0.0)
        heads_lse[:, :, :, rows] = (subtracted + row_sum.log()).view(tile.shape[:-1])
    ctx.options = options
    ctx.save_for_backward(q, k, v, out, lse)
    return out, lse


def _backward(ctx: FunctionCtx, grad_out: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Gradients of q, k and v; the probabilities are computed again from the log-sum-exp.

    With P the probabilities, dP = dO Vᵀ, delta = rowsum(dO * O) and dS = scale * P * (dP - delta):
    dV = Pᵀ dO, dK = dSᵀ Q, dQ = dS K.
    """
    q, k, v, out, lse = ctx.saved_tensors
    options: ScoreOptions = ctx.options
    heads, keys, values = by_kv_head(q, k, v)  # [B, G, R, M, D], [B, G, N, D] twice
    # A row that sees nothing has probabilities exp(score - inf) = 0.
    normaliser = lse.masked_fill(lse == FULLY_MASKED, float("inf")).view(*heads.shape[:-1], 1)
    tensors = (heads, grad_out.reshape(heads.shape), out.view(heads.shape), normaliser)
    dq = torch.empty(heads.shape, dtype=q.dtype, device=q.device)
    dk, dv = torch.zeros_like(keys), torch.zeros_like(values)
    # queries, grads and outs [B, G, R * m, D], lses [B, G, R * m, 1]
    for rows, (queries, grads, outs, lses) in query_tiles(*tensors, dtype=keys.dtype):
        delta = (grads * outs).sum(dim=-1, keepdim=True)  # [B, G, R * m, 1]
        tile_dq = torch.zeros_like(queries)
        for columns, scores in key_tiles(queries, keys, rows, heads.shape[3], options):
            probabilities = scores.sub_(lses).exp_()  # [B, G, R * m, n]
            dv[:, :, columns] += probabilities.mT @ grads
            grad_p = grads @ values[:, :, columns].mT  # [B, G, R * m, n]
            grad_s = grad_p.sub_(delta).mul_(probabilities).mul_(options.scale)
            dk[:, :, columns] += grad_s.mT @ queries
            tile_dq += grad_s @ keys[:, :, columns]
        tile = dq[:, :, :, rows]  # [B, G, R, m, D]
        tile.copy_(tile_dq.view(tile.shape))
    return dq.view(q.shape), dk.to(k.dtype).view(k.shape), dv.to(v.dtype).view(v.shape)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> Held:
    """Bytes above the inputs at the peak: while a further tile of scores is made and masked,
    while a tile is added up, or when dk and dv are rounded. k and v are copied in half precision.
    """
    rows, keys = min(QUERY_TILE, spec.query_length), min(KEY_TILE, spec.key_length)
    per_row = FLOAT32_BYTES * spec.batch * spec.heads * rows
    tile, strip = per_row * keys, per_row * spec.head_dim  # of scores; of q, dO, out or dq
    masked = spec.causal or spec.window or spec.padded
    held = tiled_bytes(spec, training=training)
    # Positions are int64, and what is hidden by them is put together from two booleans.
    mask = {"mask_tile": 10 * rows * keys if masked else 0}
    wide = 2 * float32_bytes(key_bytes(spec), spec) if is_half(spec) else 0
    held["wide_keys_and_values"] = wide
    strips = strip * (is_half(spec) or spec.heads != spec.kv_heads)  # else views of q ...
    before = 1 if spec.key_length > keys or spec.query_length > rows else 0  # tiles left over
    if not training:
        making = {"score_tiles": (1 + before) * tile, "row_tiles": strips + strip}
        adding = {"score_tiles": tile, "row_tiles": strips + 4 * strip}
        return largest(held | making | mask, held | adding)
    held["normaliser"] = held["lse"]
    held["wide_dk_and_dv"] = wide
    making = {"score_tiles": (1 + 2 * before) * tile, "row_tiles": 3 * strips + strip}
    unrounded = {"dk": 0, "dv": 0} if wide else {}
    rounding = {"score_tiles": 2 * tile, "row_tiles": 3 * strips + strip}
    return largest(held | making | mask | unrounded, held | rounding)
