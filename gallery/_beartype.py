"""Stands in for beartype where it is not installed: signatures are not checked."""

from typing import Any


def beartype(function: Any) -> Any:
    """Return the function as it is."""
    return function
