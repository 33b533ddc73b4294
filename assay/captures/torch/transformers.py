"""Attention calls of transformers' models, whatever computes them: eager, sdpa, flash, flex.

The models ask AttentionInterface for the function of their configuration. While a capture is on,
its answer is wrapped; after the last capture its method is the original one.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from assay.captures.torch import compiled
from assay.captures.torch.functions import Patch, autocast
from assay.captures.torch.recorder import TorchRecorder
from assay.captures.torch.sites import Scalars, Tensors


def locations() -> Iterator[tuple[Any, str]]:
    """The method that models call, if transformers is loaded."""
    if "transformers" in sys.modules:
        from transformers.modeling_utils import AttentionInterface

        yield AttentionInterface, "get_interface"


def get_interface(interface: Any, attn_implementation: str, default: Callable) -> Callable:
    """Wrap what AttentionInterface's own method returns, in whose place it stands."""
    name = attn_implementation
    function = patch.original(interface, name, default)

    def attention(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        *more: Any,
        **rest: Any,
    ) -> Any:
        args = (module, query, key, value, attention_mask, *more)
        if torch.compiler.is_compiling():
            return _traced(name, function, args, rest)
        for recorder in patch.recorders:
            if module in recorder.sites:
                return _recorded(recorder, name, function, args, rest)
        return function(*args, **rest)

    return attention


patch = Patch(get_interface)


def _recorded(
    recorder: TorchRecorder,
    name: str,
    function: Callable,
    args: tuple[Any, ...],
    rest: dict[str, Any],
) -> Any:
    builder = recorder.begin_call(args[1], args[0])
    if builder is not None:
        builder.add_call(*_call(name, args, rest))
    with recorder.within_call():
        result = function(*args, **rest)
    if builder is not None:
        recorder.end_call(builder, result[0].transpose(1, 2))
    return result


def _traced(name: str, function: Callable, args: tuple[Any, ...], rest: dict[str, Any]) -> Any:
    for recorder in patch.recorders:
        compiled.emit("interface begins", recorder.model)
    result = function(*args, **rest)
    tensors, scalars, _ = _call(name, args, rest)
    tensors["out"] = result[0].transpose(1, 2)
    for recorder in patch.recorders:
        compiled.emit("interface ends", recorder.model, compiled.NO_SITE, tensors, scalars)
    return result


def _call(
    name: str, args: tuple[Any, ...], rest: dict[str, Any]
) -> tuple[Tensors, Scalars, dict[str, str]]:
    """Tensors and scalars of a call through the interface, and why others are absent.

    k and v are as the model gives them: transformers' sdpa may repeat their heads afterwards.
    """
    _, query, key, value, mask = args[:5]
    tensors = {"q": query, "k": key, "v": value}
    why = {}
    if isinstance(mask, Tensor):
        # flash attention gets which keys are there, [B, S]
        tensors["mask"] = mask[:, None, None, :] != 0 if mask.dim() == 2 else mask
    elif mask is not None:
        why["mask"] = f"it is a {type(mask).__name__}, not a tensor"
    for stored_as, argument in (("sinks", "s_aux"), ("bias", "position_bias")):
        if isinstance(rest.get(argument), Tensor):
            tensors[stored_as] = rest[argument]
    if name == "sdpa":
        tensors = autocast(tensors, query.device.type)
    return tensors, _scalars(name, args, rest), why


def _scalars(name: str, args: tuple[Any, ...], rest: dict[str, Any]) -> Scalars:
    module, query, key, value, mask = args[:5]
    scale = rest.get("scaling")
    scalars: Scalars = {
        "implementation": "sdpa" if name == "sdpa" else f"transformers:{name}",
        "scale": query.shape[-1] ** -0.5 if scale is None else scale,
        "dropout": rest.get("dropout") or 0.0,
    }
    causal = rest.get("is_causal")
    if causal is None:
        causal = getattr(module, "is_causal", True)
    if name == "sdpa":  # its own rule: a mask, or a single query, decides
        scalars["causal"] = bool(causal) and mask is None and query.shape[2] > 1
        scalars["alignment"] = "top-left"
        scalars["kv_repeated"] = _repeats_heads(module, key, value, mask)
    elif name == "eager":
        scalars["causal"] = False  # whatever is hidden, its mask hides
    elif "flash" in name:
        scalars["causal"] = bool(causal)
        scalars["alignment"] = "bottom-right"
        scalars["window"] = rest.get("sliding_window")
    scalars["softcap"] = rest.get("softcap")
    return {name: value for name, value in scalars.items() if value is not None}


def _repeats_heads(module: Any, key: Tensor, value: Tensor, mask: Any) -> bool | None:
    """True where transformers' sdpa repeats heads of k and v before it calls torch's, which may
    then take another kernel; None where there is nothing to repeat, or it does not say."""
    if getattr(module, "num_key_value_groups", 1) == 1:
        return None
    try:  # by its full name: torch 2.11 cannot trace the import of a lazy package
        from transformers.integrations.sdpa_attention import use_gqa_in_sdpa
    except ImportError:
        return None
    arguments = (mask, key, value)[: use_gqa_in_sdpa.__code__.co_argcount]
    return not use_gqa_in_sdpa(*arguments)
