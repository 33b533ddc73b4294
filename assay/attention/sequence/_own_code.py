"""Functions that torch.compile counts apart: it counts recompilations by code object, and beyond a
limit it would silently run what was not compiled."""

from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any

_numbers = count()


def with_own_code(function: Callable[..., Any], name: str) -> FunctionType:
    """The function with a code object that no other has."""
    own = f"{name}_{next(_numbers)}"
    code = function.__code__.replace(co_name=own)
    return FunctionType(
        code, function.__globals__, own, function.__defaults__, function.__closure__
    )
