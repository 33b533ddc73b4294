"""Implementations of ours under names that `attn_implementation` takes."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers.masking_utils import AttentionMaskInterface, causal_mask_function, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from assay.attention.contract import Implementation, load
from assay.errors import BadInput

PREFIX = "assay_"
_EXTRAS = ("softcap", "s_aux", "sinks")  # of scores, as models of transformers name them


def register(*names: str) -> list[str]:
    """Register implementations for `attn_implementation`; return the names to give it.

    Those that take no mask refuse calls that need one, such as a padded batch.
    """
    registered = []
    for name in names:
        implementation = load(name)
        if implementation.framework != "torch" or implementation.layout != "BHSD":
            raise BadInput(
                f"{name} is of {implementation.framework} in layout {implementation.layout}; "
                "transformers' models call functions of torch in BHSD"
            )
        # transformers takes every name with "flash" in it for one of its own.
        key = PREFIX + name.replace("flash", "tiled")
        AttentionInterface.register(key, _interface(implementation))
        AttentionMaskInterface.register(key, plain_mask)
        registered.append(key)
    return registered


def plain_mask(**call: Any) -> torch.Tensor | None:
    """The mask [B, 1, T, S], True where a query sees a key; None where it is causal and no more.
    transformers' own gives one then too, as soon as there are tokens in the cache."""
    padding = call.get("attention_mask")
    plain = (
        call.get("mask_function", causal_mask_function) is causal_mask_function
        and (padding is None or bool(padding.all()))
        and not call.get("kv_offset", 0)
        and call.get("q_offset", 0) + call["q_length"] == call["kv_length"]
    )
    return None if plain else sdpa_mask(**call | {"allow_is_causal_skip": False})


def refuse_extras(given: Mapping[str, Any]) -> None:
    """Refuse what a model asks of attention and would not get: capped scores, and sinks."""
    if extras := sorted(name for name in _EXTRAS if given.get(name) is not None):
        raise BadInput(
            f"the model calls attention with {', '.join(extras)}, which this function does not "
            "know and would leave out; use attn_implementation='eager'"
        )


def _interface(implementation: Implementation) -> Callable[..., Any]:
    """The implementation as transformers' models call it."""

    def attention(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        **rest: Any,
    ) -> tuple[torch.Tensor, None]:
        """q [B, H, T, D], k and v [B, G, S, D] -> [B, T, H, D]."""
        refuse_extras(rest)
        if dropout:
            raise BadInput(f"{implementation.name} is called with dropout {dropout}; set it to 0")
        extras = {}
        if attention_mask is not None:
            if "mask" not in implementation.accepts:
                raise BadInput(
                    f"{implementation.name} takes no mask, and this call has one (a padded batch, "
                    "or a window); use eager, or sequences of one length"
                )
            extras["mask"] = attention_mask[..., : key.shape[-2]]
        causal = attention_mask is None and query.shape[-2] > 1
        causal = causal and getattr(module, "is_causal", True)
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        out = implementation.attention(query, key, value, causal=causal, scale=scale, **extras)
        return out.transpose(1, 2).contiguous(), None

    return attention
