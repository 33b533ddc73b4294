"""The operator registered with torch: `assay::flash_hopper`, with flash2_triton's backward.

As an operator of torch.library it has a shape rule and a gradient, so that torch.compile takes it
into a graph, and autograd saves only the inputs, the output and the normaliser.
"""

from typing import Any

import torch

from assay.attention.sequence.flash2_triton.operator import flash2_backward
from assay.attention.sequence.flash_hopper.launch import empty_results, run_forward


@torch.library.custom_op(
    "assay::flash_hopper",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, bool causal, float scale, str? config) "
    "-> (Tensor, Tensor)",
)
def flash_hopper(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    scale: float,
    config: str | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [B, H, M, D] and normaliser [B, H, M]."""
    return run_forward(q, k, v, causal, scale, config)


@flash_hopper.register_fake
def _(q: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return empty_results(q)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, causal, scale, _ = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.options = (causal, scale)
    ctx.set_materialize_grads(False)


def _gradients(
    ctx: Any, grad_out: torch.Tensor | None, grad_lse: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    if grad_out is None and grad_lse is None:
        return (None,) * 6
    q, k, v, out, lse = ctx.saved_tensors
    grads = flash2_backward(
        torch.zeros_like(out) if grad_out is None else grad_out,
        *(grad_lse, q, k, v, out, lse),
        *(ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:3])),
        *(*ctx.options, None, None, None, None, None),
    )
    needed = zip(grads, ctx.needs_input_grad[:3], strict=True)
    return *(grad if need else None for grad, need in needed), None, None, None


flash_hopper.register_autograd(_gradients, setup_context=_save)
