"""Which modules of a torch model are its attentions, in what order, and by what names.

Modules are told by the names of their classes. One that is named otherwise is found when it first
calls an attention function.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import FrameType

from torch import nn

_NAMES = ("attention", "attn")
_PARTS = ("norm", "mask", "output", "dropout", "embed")  # of an attention, not one
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module"}
UNKNOWN = -1


@dataclass(eq=False)
class Site:
    """One attention module. `number` is its place among all modules, the same in every context."""

    number: int
    path: str
    layer: int
    module: nn.Module
    # As far as is known: whether it asks transformers for its attention function, and whether its
    # attention calls are seen at all.
    asks_transformers: bool = False
    gives_calls: bool = False

    def learn(self, *, gives_calls: bool) -> None:
        """What its last call has shown."""
        self.gives_calls = gives_calls
        self.asks_transformers = self.asks_transformers and gives_calls


class Sites:
    """The attentions of one model."""

    def __init__(self, model: nn.Module, wanted: str | None = None) -> None:
        """`wanted`: patterns of paths, comma between, as CaptureOptions has them."""
        self.model = model
        patterns = [part.strip() for part in (wanted or "").split(",") if part.strip()]
        self._modules = list(model.named_modules())
        self._numbers = {id(module): n for n, (_, module) in enumerate(self._modules)}
        self._sites: dict[int, Site] = {}
        for number in _attentions(self._modules, patterns):
            self._add(number)
        self.hooked = tuple(self._sites.values())
        # Whose calls a compiled program tells without saying where they come from.
        self.unknown = Site(number=UNKNOWN, path="", layer=-1, module=model)

    def __getitem__(self, number: int) -> Site:
        return self._sites[number]

    def knows(self, module: nn.Module) -> bool:
        """Whether the module is part of the model."""
        return id(module) in self._numbers

    def of(self, module: nn.Module) -> Site:
        """The site of a module of the model, which becomes one where it was none.

        With it all others of its class do, so that layers are numbered in order of the model.
        """
        number = self._numbers[id(module)]
        if number not in self._sites:
            for other, (_, one) in enumerate(self._modules):
                if type(one) is type(module) and other not in self._sites:
                    self._add(other)
        return self._sites[number]

    def calling(self) -> nn.Module | None:
        """The module of the model that is running this, told from the stack."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_argcount:
                first = frame.f_locals.get(code.co_varnames[0])
                if isinstance(first, nn.Module) and self.knows(first):
                    return first
            frame = frame.f_back
        return None

    def _add(self, number: int) -> None:
        path, module = self._modules[number]
        site = Site(number=number, path=path, layer=len(self._sites), module=module)
        site.asks_transformers = site.gives_calls = _asks_transformers(module)
        self._sites[number] = site


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside torch.compile's and DDP's wrappers."""
    while type(model).__name__ in _WRAPPERS:
        model = getattr(model, _WRAPPERS[type(model).__name__])
    return model


def _attentions(modules: Sequence[tuple[str, nn.Module]], patterns: Sequence[str]) -> list[int]:
    """Those called attention that hold no other; or what the patterns name, if none of them."""
    named = {n for n, (_, module) in enumerate(modules) if _is_called_attention(module)}
    within = {n: _inside(modules[n][1]) for n in named}
    found = [n for n in sorted(named) if not any(id(modules[m][1]) in within[n] for m in named)]
    if patterns and not any(_matches(modules[n][0], patterns) for n in found):
        return [n for n, (path, _) in enumerate(modules) if path and _matches(path, patterns)]
    return found


def _is_called_attention(module: nn.Module) -> bool:
    name = type(module).__name__.lower()
    return any(word in name for word in _NAMES) and not any(part in name for part in _PARTS)


def _inside(module: nn.Module) -> set[int]:
    return {id(one) for one in module.modules() if one is not module}


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _asks_transformers(module: nn.Module) -> bool:
    """Whether the file of its class holds transformers' table of attention functions."""
    names = vars(sys.modules.get(type(module).__module__, object))
    return any(type(value).__name__ == "AttentionInterface" for value in list(names.values()))
