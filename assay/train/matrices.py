"""Weights of a model by what they are: the linear maps of its blocks, and all others.

The maps are what is pruned, and what rules for matrices such as Muon's move. Embeddings are none of
them, nor is the head that is tied to one, nor what a part has beside its maps.
"""

from torch import nn


def linear_maps(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of the linear maps in the blocks, [out, in] each, by name and in their order."""
    return {
        f"{name}.weight": module.weight
        for name, module in model.named_modules()
        if name.startswith("h.") and isinstance(module, nn.Linear) and module.weight.requires_grad
    }


def layer_of(name: str) -> int:
    """The number of the block that a linear map lies in."""
    return int(name.split(".")[1])
