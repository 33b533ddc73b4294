"""torch.compile for one combination of shapes, as one graph, or an error."""

from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any

import torch

_numbers = count()


def compile_alone(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function compiled under a code object that no other has.

    torch counts recompilations by code object, and beyond a limit it would silently run what was
    not compiled.
    """
    return torch.compile(with_own_code(function, name), fullgraph=True, dynamic=False)


def with_own_code(function: Callable[..., Any], name: str) -> FunctionType:
    """A copy of the function with a code object of its own."""
    unique = f"{name}_{next(_numbers)}"
    code = function.__code__.replace(co_name=unique)
    return FunctionType(
        code, function.__globals__, unique, function.__defaults__, function.__closure__
    )
