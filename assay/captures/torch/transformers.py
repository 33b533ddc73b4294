"""Sees attention as transformers' models call it, whatever computes it: eager, sdpa, flash, flex.

They ask a table for the function of their configuration. While a capture is on, the table's answer
is wrapped; behind the last capture the table's method is the one it was.
"""

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from assay.captures.torch import call as torch_call
from assay.captures.torch import compiled
from assay.captures.torch.call import Scalars, Tensors
from assay.captures.torch.patches import Patch

if TYPE_CHECKING:
    from assay.captures.torch.taking import Taking

_NO_TENSOR = "it is a {}, not a tensor"


def places() -> Iterator[tuple[Any, str]]:
    """The method that models ask, where transformers is loaded."""
    if "transformers" in sys.modules:
        from transformers.modeling_utils import AttentionInterface

        yield AttentionInterface, "get_interface"


def get_interface(table: Any, attn_implementation: str, default: Callable) -> Callable:
    """In place of the table's, which it asks."""
    name = attn_implementation
    found = patch.original(table, name, default)

    def attention(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        *more: Any,
        **rest: Any,
    ) -> Any:
        given = (module, query, key, value, attention_mask, *more)
        if torch.compiler.is_compiling():
            return _traced(name, found, given, rest)
        for taking in patch.takings:
            if taking.sites.knows(module):
                return _seen(taking, name, found, given, rest)
        return found(*given, **rest)

    return attention


patch = Patch(get_interface)


def _seen(
    taking: "Taking", name: str, found: Callable, given: tuple[Any, ...], rest: dict[str, Any]
) -> Any:
    draft = taking.begin_call(given[1], given[0])
    if draft is not None:
        draft.add_call(*of_table(name, given, rest))
    with taking.one_call():
        answer = found(*given, **rest)
    if draft is not None:
        taking.end_call(draft, answer[0].transpose(1, 2))
    return answer


def _traced(name: str, found: Callable, given: tuple[Any, ...], rest: dict[str, Any]) -> Any:
    for taking in patch.takings:
        compiled.tell("table is asked", taking.model)
    answer = found(*given, **rest)
    tensors, scalars, _ = of_table(name, given, rest)
    tensors["out"] = answer[0].transpose(1, 2)
    for taking in patch.takings:
        compiled.tell("table answers", taking.model, compiled.NO_SITE, tensors, scalars)
    return answer


def of_table(
    name: str, given: tuple[Any, ...], rest: dict[str, Any]
) -> tuple[Tensors, Scalars, dict[str, str]]:
    """Tensors and scalars of a call through the table, and why others are absent.

    k and v are as the model gives them: transformers' sdpa may repeat their heads afterwards.
    """
    _, query, key, value, mask = given[:5]
    tensors = {"q": query, "k": key, "v": value}
    why = {}
    if isinstance(mask, Tensor):
        # flash attention is given which keys are there, [B, S]
        tensors["mask"] = mask[:, None, None, :] != 0 if mask.dim() == 2 else mask
    elif mask is not None:
        why["mask"] = _NO_TENSOR.format(type(mask).__name__)
    for ours, theirs in (("sinks", "s_aux"), ("bias", "position_bias")):
        if isinstance(rest.get(theirs), Tensor):
            tensors[ours] = rest[theirs]
    if name == "sdpa":
        tensors = torch_call.as_cast(tensors, query.device.type)
    return tensors, _scalars(name, given, rest), why


def _scalars(name: str, given: tuple[Any, ...], rest: dict[str, Any]) -> Scalars:
    module, query, _, _, mask = given[:5]
    scale = rest.get("scaling")
    scalars: Scalars = {
        "implementation": "sdpa" if name == "sdpa" else f"transformers:{name}",
        "scale": query.shape[-1] ** -0.5 if scale is None else scale,
        "dropout": rest.get("dropout") or 0.0,
    }
    flag = rest.get("is_causal")
    if flag is None:
        flag = getattr(module, "is_causal", True)
    if name == "sdpa":  # its own rule: a mask, or a single query, says it all
        scalars["causal"] = bool(flag) and mask is None and query.shape[2] > 1
        scalars["alignment"] = "top-left"
        scalars["kv_repeated"] = _repeats(module, given[2], given[3], mask)
    elif name == "eager":
        scalars["causal"] = False  # whatever is hidden, its mask hides
    elif "flash" in name:
        scalars["causal"] = bool(flag)
        scalars["alignment"] = "bottom-right"
        scalars["window"] = rest.get("sliding_window")
    scalars["softcap"] = rest.get("softcap")
    return {name: value for name, value in scalars.items() if value is not None}


def _repeats(module: Any, key: Tensor, value: Tensor, mask: Any) -> bool | None:
    """Whether transformers' sdpa repeats heads of k and v before it calls torch's, which may then
    take another kernel; None where there is nothing to repeat, or it does not say."""
    from transformers.integrations import sdpa_attention

    if getattr(module, "num_key_value_groups", 1) == 1:
        return None
    decides = getattr(sdpa_attention, "use_gqa_in_sdpa", None)
    if decides is None:
        return None
    arguments = (mask, key, value)[: decides.__code__.co_argcount]
    return not decides(*arguments)
