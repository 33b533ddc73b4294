"""A mark that programs made by torch.compile look at, so that they differ with and without capture.

torch.compile ignores hooks that come after it. But on every call a program compares torch's global
state with that in which it was traced, the autocast settings of all kinds of devices among it. Two
kinds that no machine here has carry the mark: what is traced while they are set is used only while
they are set to the same. Nothing else looks at them, and reading them costs a program nothing.
"""

from functools import cache

import torch

_DEVICES = ("ipu", "maia")
Meaning = frozenset[tuple[int, tuple[int, ...]]]  # models and their hooked modules

_numbers: dict[Meaning, int] = {}
_captured: list[tuple[int, tuple[int, ...]]] = []
_before: list[tuple[bool, torch.dtype]] = []


def begin(model: int, hooked: tuple[int, ...]) -> None:
    """From here on a model is captured, with hooks on some of its modules."""
    if not _captured:
        _before[:] = [
            (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in _DEVICES
        ]
    _captured.append((model, hooked))
    _set()


def end(model: int, hooked: tuple[int, ...]) -> None:
    """Undo `begin`."""
    _captured.remove((model, hooked))
    if _captured:
        _set()
        return
    for device, (enabled, dtype) in zip(_DEVICES, _before, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


def _set() -> None:
    number = _numbers.setdefault(frozenset(_captured), len(_numbers))
    for device in _DEVICES:
        number, digit = divmod(number, len(_dtypes()))
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, _dtypes()[digit])


@cache
def _dtypes() -> list[torch.dtype]:
    """The digits that a number is written in."""
    found = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return sorted(found, key=str)
