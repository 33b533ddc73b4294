"""Models whose calls leave nothing behind: buffers and attributes are put back after each call.

A running mean or a counter makes two calls differ, whatever their tokens: beside it a leak cannot
be told from state. Parameters and modes are not touched, nor what lies outside the model.
"""

from typing import Any

import torch
from torch import nn

_OWN = frozenset(vars(nn.Module()))  # attributes that every module has
_READ_AFTERWARDS = "auxiliary_loss"


def without_kept_state(model: nn.Module) -> nn.Module:
    """Let each call of a model put back the buffers and attributes that it changes."""
    kept: list[dict[nn.Module, tuple[dict, dict]]] = []

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        kept.append({part: _state(part) for part in module.modules()})

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        for part, (buffers, attributes) in kept.pop().items():
            part._buffers.clear()
            part._buffers.update(buffers)
            _put_back(part, attributes)

    model.register_forward_pre_hook(before, with_kwargs=True)
    model.register_forward_hook(after, with_kwargs=True, always_call=True)
    return model


def _state(module: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Copies of the buffers and of the attributes of one module."""
    attributes = {name: value for name, value in vars(module).items() if name not in _OWN}
    return _copies(module._buffers), _copies(attributes)


def _copies(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _copy(value) for name, value in values.items()}


def _copy(value: Any) -> Any:
    """A copy of a tensor, list, dict or set; anything else is taken for unchangeable."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) is dict:
        return _copies(value)
    if type(value) is list:
        return [_copy(member) for member in value]
    return set(value) if type(value) is set else value


def _put_back(module: nn.Module, attributes: dict[str, Any]) -> None:
    own = vars(module)
    for name in [name for name in own if name not in _OWN and name != _READ_AFTERWARDS]:
        if name not in attributes:
            del own[name]
    attributes.pop(_READ_AFTERWARDS, None)
    own.update(attributes)
