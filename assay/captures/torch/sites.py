"""Attention modules of a torch model: which they are, in what order, their inputs and outputs.

Modules are recognised by the names of their classes. One that is named otherwise is recognised when
it first calls an attention function. `module_inputs` and `module_output` are also traced by
torch.compile, so they are plain.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import Tensor, nn

from assay.captures.manifest import Scalar
from assay.captures.recording.options import matches

Tensors = dict[str, Tensor]  # by the store's names
Scalars = dict[str, Scalar]

_NAMES = ("attention", "attn")
_PARTS = ("norm", "mask", "output", "dropout", "embed")  # of an attention, not one
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module"}
# Names that models give to the arguments of their attentions.
_X = ("hidden_states", "x", "query", "input")
_POSITIONS = ("position_ids", "positions")
_MASKS = ("attention_mask", "attn_mask", "mask")
_CACHES = ("past_key_values", "past_key_value", "layer_past", "kv_cache", "cache")


@dataclass(eq=False)
class Site:
    """One attention module. `number` is its place among all modules, the same in every capture."""

    number: int
    path: str
    layer: int
    module: nn.Module
    # As far as is known: it calls its attention through transformers' interface, and its attention
    # calls are visible at all.
    uses_interface: bool = False
    calls_visible: bool = False

    def learn(self, *, calls_visible: bool) -> None:
        """Remember what its last call has shown."""
        self.calls_visible = calls_visible
        self.uses_interface = self.uses_interface and calls_visible


class Sites:
    """The attention modules of one model."""

    def __init__(self, model: nn.Module, wanted: str | None = None) -> None:
        """`wanted`: patterns of paths, separated by commas, as in CaptureOptions."""
        self._modules = list(model.named_modules())
        self._numbers = {id(module): n for n, (_, module) in enumerate(self._modules)}
        self._sites: dict[int, Site] = {}
        for number in _attentions(self._modules, wanted):
            self._add(number)
        self.hooked = tuple(self._sites.values())
        # For calls that a compiled program reports without saying where they come from.
        self.unknown = Site(number=-1, path="", layer=-1, module=model)

    def __getitem__(self, number: int) -> Site:
        return self._sites[number]

    def __contains__(self, module: object) -> bool:
        """True for any module of the model."""
        return id(module) in self._numbers

    def of(self, module: nn.Module) -> Site:
        """The site of a module of the model, which becomes one if it was none.

        So do all others of its class, so that layers are numbered in the order of the model.
        """
        number = self._numbers[id(module)]
        if number not in self._sites:
            for other, (_, candidate) in enumerate(self._modules):
                if type(candidate) is type(module) and other not in self._sites:
                    self._add(other)
        return self._sites[number]

    def on_stack(self) -> nn.Module | None:
        """The innermost module of the model among the callers of this function."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_argcount:
                first = frame.f_locals.get(code.co_varnames[0])
                if isinstance(first, nn.Module) and first in self:
                    return first
            frame = frame.f_back
        return None

    def _add(self, number: int) -> None:
        path, module = self._modules[number]
        site = Site(number=number, path=path, layer=len(self._sites), module=module)
        site.uses_interface = site.calls_visible = _uses_interface(module)
        self._sites[number] = site


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside torch.compile's and DDP's wrappers."""
    while type(model).__name__ in _WRAPPERS:
        model = getattr(model, _WRAPPERS[type(model).__name__])
    return model


def module_inputs(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensors, int | None, bool]:
    """Tensors by the store's names, positions that a cache holds, and whether there is a cache.

    For a cache that counts its positions on a device the count is a tensor, cache.idx.
    """
    tensors: Tensors = {}
    x = args[0] if args else _first(kwargs, _X)
    for name, value in (
        ("x", x),
        ("positions", _first(kwargs, _POSITIONS)),
        ("mask", _first(kwargs, _MASKS)),
    ):
        if isinstance(value, Tensor):
            tensors[name] = value
    cache = _first(kwargs, _CACHES)
    past = _add_cache(module, cache, tensors)
    return tensors, past, cache is not None


def module_output(output: Any) -> Tensor | None:
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


def _add_cache(module: nn.Module, cache: Any, tensors: Tensors) -> int | None:
    """Length of a cache, which is transformers' or a pair (k, v); its tensors are added."""
    if isinstance(cache, tuple | list) and len(cache) == 2 and isinstance(cache[0], Tensor):
        tensors["cache.k"], tensors["cache.v"] = cache[0], cache[1]
        return cache[0].shape[-2]
    if not hasattr(cache, "get_seq_length"):
        return None
    layer = getattr(module, "layer_idx", None) or 0
    past = cache.get_seq_length(layer)
    layers = getattr(cache, "layers", ())
    if layer < len(layers) and isinstance(getattr(layers[layer], "keys", None), Tensor):
        tensors["cache.k"], tensors["cache.v"] = layers[layer].keys, layers[layer].values
    if isinstance(past, Tensor):
        tensors["cache.idx"] = past
        return None
    return past


def _attentions(modules: Sequence[tuple[str, nn.Module]], patterns: str | None) -> list[int]:
    """Numbers of those called attention that hold no other; of what the patterns match if they
    match none of these."""
    named = {n for n, (_, module) in enumerate(modules) if _is_called_attention(module)}
    within = {n: {id(part) for part in modules[n][1].modules()} for n in named}
    innermost = [
        n for n in sorted(named) if not any(id(modules[m][1]) in within[n] for m in named - {n})
    ]
    if patterns and not any(matches(modules[n][0], patterns) for n in innermost):
        return [n for n, (path, _) in enumerate(modules) if path and matches(path, patterns)]
    return innermost


def _is_called_attention(module: nn.Module) -> bool:
    name = type(module).__name__.lower()
    return any(word in name for word in _NAMES) and not any(part in name for part in _PARTS)


def _uses_interface(module: nn.Module) -> bool:
    """True where the file of its class holds transformers' table of attention functions."""
    names = vars(sys.modules.get(type(module).__module__, object))
    return any(type(value).__name__ == "AttentionInterface" for value in list(names.values()))
