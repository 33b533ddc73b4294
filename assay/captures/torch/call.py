"""What an attention function of torch was given, in the axes and dtypes that its kernel gets.

Axes: B batch, H heads, S positions, D head dimension. The functions here are also traced by
torch.compile, so they are plain.
"""

from typing import Any

import torch
from torch import Tensor

from assay.captures.manifest import Scalar

Tensors = dict[str, Tensor]
Scalars = dict[str, Scalar]


def of_sdpa(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensors, Scalars]:
    """The tensors and scalars of a call of torch's scaled_dot_product_attention.

    k and v keep their own number of heads.
    """
    query, key, value, mask, dropout, causal, scale, _ = _sdpa_arguments(*args, **kwargs)
    tensors = {"q": query, "k": key, "v": value}
    if mask is not None:
        tensors["mask"] = mask
    scalars: Scalars = {
        "implementation": "sdpa",
        "causal": causal,
        "alignment": "top-left",  # of torch's is_causal, where there are more keys than queries
        "scale": query.shape[-1] ** -0.5 if scale is None else scale,
        "dropout": dropout,
    }
    return as_cast(tensors, query.device.type), scalars


def _sdpa_arguments(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Any, ...]:
    return query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa


def as_cast(tensors: Tensors, device: str) -> Tensors:
    """As autocast hands them to scaled_dot_product_attention: a mode sees them before that."""
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return {name: _cast(tensor, dtype) for name, tensor in tensors.items()}


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if tensor.is_floating_point() and tensor.dtype != torch.float64:
        return tensor.detach().to(dtype)
    return tensor


def as_BHSD(tensor: Tensor) -> Tensor:
    """With the four axes of a record: a missing head axis added, further batch axes made one."""
    if tensor.dim() == 3:
        return tensor.unsqueeze(1)
    return tensor.flatten(0, -4) if tensor.dim() > 4 else tensor


def order(tensor: Tensor) -> str:
    """How a BHSD tensor lies in memory."""
    heads, positions = tensor.stride(1), tensor.stride(2)
    both_long = tensor.shape[1] > 1 and tensor.shape[2] > 1
    return "BSHD" if both_long and heads < positions else "BHSD"
