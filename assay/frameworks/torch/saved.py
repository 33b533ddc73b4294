"""Bytes that torch's autograd keeps from a forward pass for the backward pass.

Counted are storages, each once and whole, that are not those of the inputs. A tensor that an
implementation hangs onto its context by hand is not seen.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from assay.instruments.reading import Reading

SOURCE = (
    "torch.autograd.graph.saved_tensors_hooks: distinct storages above the inputs; without what "
    "a function keeps by other means than save_for_backward"
)


def saved_bytes(
    call: Callable[..., Any], inputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor] = ()
) -> Reading:
    """Of `call(*inputs)` with all inputs requiring gradients; `others` are its other tensors."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    theirs = {_address(tensor) for tensor in (*leaves, *others)}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if _address(tensor) not in theirs:
            kept[_address(tensor)] = tensor.untyped_storage().nbytes()
        return tensor.detach()  # an output that holds itself would never be freed

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = call(*leaves)  # alive while counting, so no address is used twice
    if not (isinstance(out, torch.Tensor) and out.requires_grad):
        return Reading(value=None, reason="the output does not depend on the inputs by autograd")
    return Reading(value=sum(kept.values()), source=SOURCE)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
