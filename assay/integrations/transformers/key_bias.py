"""Biases of the keys of transformers' models, and the positions that turn them."""

import weakref
from typing import Any

import torch

from assay.errors import BadInput
from assay.kv.key_bias import KeyBias


def key_biases(model: Any) -> list[KeyBias]:
    """Return the bias of every layer's keys with its rotation; BadInput where keys are made in
    another way than by a projection with a bias that positions turn."""
    layers = [m for m in model.modules() if hasattr(m, "k_proj") and hasattr(m, "layer_idx")]
    rotary = _rotary(model)

    def rotation(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = torch.empty(0, device=positions.device)  # says that float32 is wanted
        cos, sin = rotary.forward(wide, positions[None])  # unseen by hooks
        return cos[0], sin[0]

    biases = []
    for layer in sorted(layers, key=lambda each: each.layer_idx):
        bias = layer.k_proj.bias
        if bias is None or any("norm" in name for name, _ in layer.named_children()):
            raise BadInput(
                f"layer {layer.layer_idx} of {type(model).__name__} has no bias in its key "
                "projection, or norms its keys; pre-bias keys are for models such as Qwen2: "
                "choose k16v8 or k8v8"
            )
        biases.append(KeyBias(bias=bias.detach().view(-1, layer.head_dim), rotation=rotation))
    if not biases:
        raise BadInput(f"{type(model).__name__} has no layers with a k_proj; choose k16v8 or k8v8")
    return biases


class PositionWatch:
    """The positions of a model's last pass, read where they are turned into angles.

    A cache is not told of them, and takes a bias off as if they counted from 0; padding on the left
    shifts them.
    """

    def __init__(self, model: Any) -> None:
        last = self._last = []  # the hook holds this and not the watch, which ends with its cache

        def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            last[:] = [kwargs["position_ids"] if "position_ids" in kwargs else args[1]]

        handle = _rotary(model).register_forward_pre_hook(note, with_kwargs=True)
        weakref.finalize(self, handle.remove)

    def refuse_other_than(self, start: int, count: int) -> None:
        """BadInput unless the pass has the `count` positions from `start` on in every sequence."""
        positions = self._last[0] if self._last else None
        expected = torch.arange(start, start + count)
        if positions is None or not torch.equal(positions.cpu(), expected.expand_as(positions)):
            given = "none" if positions is None else positions[:, [0, -1]].tolist()
            raise BadInput(
                f"pre-bias keys are kept by positions that count from 0 in every sequence: {start} "
                f"to {start + count - 1} here. First and last of those given, by sequence: "
                f"{given}. Padding shifts them: pass sequences without padding, all of one length"
            )


def _rotary(model: Any) -> Any:
    """The module that makes cos and sin; there must be one for all layers."""
    modules = [module for name, module in model.named_modules() if name.endswith("rotary_emb")]
    if len(modules) != 1:
        raise BadInput(
            f"{type(model).__name__} has {len(modules)} rotary embeddings; pre-bias keys are made "
            "for models with one for all layers, such as Qwen2: choose k16v8"
        )
    return modules[0]
