"""The loss of a decoder in one go with the head: products, cross entropy and gradients of some rows
at a time, all in the forward pass, so that no logits are kept for the backward one.

Each part of the logits is turned into its own gradient in place, multiplied on and let go. The loss
of a compiled `forward` reads all logits once more: a step of GPT-2 124M on an H200 takes 63.5 ms
with it and 61.9 with this one (docs/results/train.md).

N rows (tokens), V vocabulary, E width.
"""

from typing import Any

import torch
from torch.nn import functional as F

IGNORED = -1  # a target that is not counted
_MOST_BYTES = 1 << 32  # of logits at once


@torch.compiler.disable
def head_loss(x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy of x [N, E] times weight [V, E] over the targets [N] that count, with
    products in the dtype of autocast. NaN where none counts, as torch's own."""
    dtype = x.dtype
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
    with torch.autocast(x.device.type, enabled=False):
        return _HeadLoss.apply(x, weight, targets, dtype)


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, dtype: torch.dtype
    ) -> torch.Tensor:
        rows, kept = x.to(dtype), weight.to(dtype)
        wide = torch.promote_types(dtype, torch.float32)
        share = 1 / (targets != IGNORED).sum().to(wide)  # infinite where no target counts
        wants_x, wants_weight, *_ = ctx.needs_input_grad
        x_slope = torch.empty_like(rows) if wants_x else None
        weight_slope: torch.Tensor | None = None
        losses = []
        count = max(1, _MOST_BYTES // (len(weight) * rows.element_size()))
        for first in range(0, len(rows), count):
            part = slice(first, first + count)
            logits = rows[part] @ kept.T
            losses.append(_turn_to_slopes(logits, targets[part], share))
            if x_slope is not None:
                torch.mm(logits, kept, out=x_slope[part])
            if wants_weight:
                product = logits.T @ rows[part]
                weight_slope = product if weight_slope is None else weight_slope.to(wide) + product
        ctx.save_for_backward(x_slope, weight_slope)
        ctx.dtypes = x.dtype, weight.dtype
        return torch.cat(losses).sum() * share

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        slopes = (
            None if slope is None else slope.to(dtype, copy=True).mul_(gradient)
            for slope, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return (*slopes, None, None)


def _turn_to_slopes(
    logits: torch.Tensor, targets: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """Losses [N] of logits [N, V], which become the gradient of the losses' sum times `share`."""
    if logits.is_cuda and share.dtype == torch.float32:  # as wide as the kernel computes
        from assay.models.gpt2 import loss_kernel  # Triton is not everywhere

        return loss_kernel.turn_to_slopes(logits, targets, share)
    wide, counted = logits.to(share.dtype), targets != IGNORED
    losses = F.cross_entropy(wide, targets, reduction="none", ignore_index=IGNORED)
    slopes = wide.softmax(-1)
    slopes[counted, targets[counted]] -= 1
    logits.copy_(slopes * torch.where(counted, share, 0)[:, None])
    return losses
