"""Models of full size without their weights: for what their shapes alone say."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode


@contextmanager
def weightless(dtype: torch.dtype = torch.float32) -> Iterator[None]:
    """Make what is built meanwhile on the meta device, in this dtype."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"), _SkippedInitialization():
            yield
    finally:
        torch.set_default_dtype(usual)


class _SkippedInitialization(TorchFunctionMode):
    """Leaves out torch.nn.init: a meta tensor has no values, and drawing them takes most time."""

    def __torch_function__(self, function, types, args=(), kwargs=None):  # noqa: ANN001
        if getattr(function, "__module__", None) == init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        return function(*args, **(kwargs or {}))
