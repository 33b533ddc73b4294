"""The operators registered with torch: `assay::flash2_triton` and its backward.

As operators of torch.library they have a shape rule and a gradient, so that torch.compile takes
them into one graph, and autograd saves only the inputs, the output and the normaliser.
"""

from typing import Any

import torch

from assay.attention.sequence.flash2_triton.arguments import check
from assay.attention.sequence.flash2_triton.launch import (
    CallOptions,
    run_delta,
    run_dkdv,
    run_dq,
    run_forward,
)

# The fields of CallOptions.
_OPTIONS = (
    "bool causal, float scale, int? window, Tensor? lengths, Tensor? cu_q, Tensor? cu_k, "
    "str? config"
)


@torch.library.custom_op(
    "assay::flash2_triton",
    mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)",
)
def flash2(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [B, H, M, D] and normaliser [B, H, M]; options as in CallOptions."""
    return run_forward(q, k, v, CallOptions(*options))


@flash2.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any) -> tuple[torch.Tensor, ...]:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op(
    "assay::flash2_triton_backward",
    mutates_args=(),
    schema="(Tensor grad_out, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, Tensor out, "
    f"Tensor lse, bool of_queries, bool of_keys, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
)
def flash2_backward(
    grad_out: torch.Tensor,
    grad_lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    of_queries: bool,
    of_keys: bool,
    *options: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv; those that are not needed come back without elements."""
    shared = CallOptions(*options)
    delta = run_delta(grad_out, grad_lse, out, lse)
    inputs = (q, k, v, grad_out, lse, delta)
    dq = run_dq(*inputs, shared) if of_queries else q.new_empty(0)
    dk, dv = run_dkdv(*inputs, shared) if of_keys else (k.new_empty(0), v.new_empty(0))
    return dq, dk, dv


@flash2_backward.register_fake
def _(
    grad_out: torch.Tensor,
    grad_lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    of_queries: bool,
    of_keys: bool,
    *options: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dq = torch.empty_like(q) if of_queries else q.new_empty(0)
    if not of_keys:
        return dq, k.new_empty(0), v.new_empty(0)
    return dq, torch.empty_like(k), torch.empty_like(v)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, causal, scale, window, lengths, cu_q, cu_k, config = inputs
    ctx.save_for_backward(q, k, v, *output, lengths, cu_q, cu_k)
    ctx.plain = (causal, scale, window, config)
    ctx.set_materialize_grads(False)


def _gradients(
    ctx: Any, grad_out: torch.Tensor | None, grad_lse: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    q, k, v, out, lse, lengths, cu_q, cu_k = ctx.saved_tensors
    causal, scale, window, config = ctx.plain
    if grad_out is None and grad_lse is None:
        return (None,) * 10
    grads = flash2_backward(
        torch.zeros_like(out) if grad_out is None else grad_out,
        *(grad_lse, q, k, v, out, lse),
        *(ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:3])),
        *(causal, scale, window, lengths, cu_q, cu_k, config),
    )
    needed = zip(grads, ctx.needs_input_grad[:3], strict=True)
    return *(grad if need else None for grad, need in needed), *(None,) * 7


flash2.register_autograd(_gradients, setup_context=_save)


class FlashAttention2(torch.autograd.Function):
    """`FlashAttention2.apply(q, k, v, is_causal)`, scaled by one over the root of D.

    q [B, M, D] with k and v [B, N, D], or q [B, H, M, D] with k and v [B, G, N, D]. Besides inputs
    and output it keeps one tensor for the backward, the normaliser [..., M].
    """

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool = False
    ) -> torch.Tensor:
        inputs, options = _with_heads(q, k, v), _plain_options(q, is_causal)
        check(*inputs, scale=options[1])
        out, lse = flash2(*inputs, *options)
        out, lse = out.reshape(q.shape), lse.reshape(q.shape[:-1])
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.is_causal = is_causal
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        of_queries, of_keys = ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:3])
        grad_out, *inputs = _with_heads(grad_out, q, k, v, out)
        lse = lse.reshape(inputs[0].shape[:3])
        grads = flash2_backward(
            grad_out, None, *inputs, lse, of_queries, of_keys, *_plain_options(q, ctx.is_causal)
        )
        pairs = zip(grads, (q, k, v), ctx.needs_input_grad, strict=False)
        return *(g.reshape(x.shape) if need else None for g, x, need in pairs), None


def _with_heads(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.unsqueeze(1) if tensor.dim() == 3 else tensor for tensor in tensors)


def _plain_options(q: torch.Tensor, is_causal: bool) -> tuple[Any, ...]:
    """Options of a call without any extras, in the order of the schema."""
    return is_causal, q.shape[-1] ** -0.5, None, None, None, None, None
