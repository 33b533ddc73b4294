"""What an attention module is given and gives, told from the names that models use for it.

Also traced by torch.compile, so it is plain.
"""

from typing import Any

from torch import Tensor, nn

from assay.captures.torch.call import Tensors

_X = ("hidden_states", "x", "query", "input")
_POSITIONS = ("position_ids", "positions")
_MASKS = ("attention_mask", "attn_mask", "mask")
_CACHES = ("past_key_values", "past_key_value", "layer_past", "kv_cache", "cache")


def given(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensors, int | None, bool]:
    """Tensors by the store's names, how many positions a cache holds, and whether there is one.

    Of a cache that counts its positions on a device the count is a tensor, cache.idx.
    """
    tensors: Tensors = {}
    x = args[0] if args else _first(kwargs, _X)
    for name, found in (
        ("x", x),
        ("positions", _first(kwargs, _POSITIONS)),
        ("mask", _first(kwargs, _MASKS)),
    ):
        if isinstance(found, Tensor):
            tensors[name] = found
    cache = _first(kwargs, _CACHES)
    past = _held(module, cache, tensors)
    return tensors, past, cache is not None


def gave(output: Any) -> Tensor | None:
    """The first tensor of what a module returns."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return output[0]
    return None


def _first(kwargs: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if kwargs.get(name) is not None:
            return kwargs[name]
    return None


def _held(module: nn.Module, cache: Any, tensors: Tensors) -> int | None:
    """Length of a cache, of transformers or a pair (k, v); its tensors are added."""
    if isinstance(cache, tuple | list) and len(cache) == 2 and isinstance(cache[0], Tensor):
        tensors["cache.k"], tensors["cache.v"] = cache[0], cache[1]
        return cache[0].shape[-2]
    if not hasattr(cache, "get_seq_length"):
        return None
    place = getattr(module, "layer_idx", None) or 0
    past = cache.get_seq_length(place)
    layers = getattr(cache, "layers", ())
    if place < len(layers) and isinstance(getattr(layers[place], "keys", None), Tensor):
        tensors["cache.k"], tensors["cache.v"] = layers[place].keys, layers[place].values
    if isinstance(past, Tensor):
        tensors["cache.idx"] = past
        return None
    return past
