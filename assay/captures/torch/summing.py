"""Chooses how statistics of a tensor are computed where it lies."""

from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assay.captures.torch import statistics as torch_statistics
from assay.captures.torch.copies import Copies

if TYPE_CHECKING:
    from assay.captures.torch.summaries import Summaries


class Summing:
    """Of one model: on GPUs all tensors of a step together, elsewhere each by itself."""

    def __init__(self) -> None:
        self._summaries: dict[torch.device, Summaries] = {}

    def sum_up(self, name: str, tensor: Tensor, copies: Copies) -> None:
        """Begin, and tell `copies` how it is finished. `tensor` is floating and not empty."""
        if not (tensor.is_cuda and _triton() and tensor.dtype != torch.float64):
            copies.take_summary(name, *torch_statistics.begun(tensor))
            return
        from assay.captures.torch.summaries import Summaries

        found = self._summaries.get(tensor.device)
        if found is None:
            found = self._summaries[tensor.device] = Summaries(tensor.device)
        place = found.add(tensor)
        copies.take_statistics(name, lambda: found.statistics(place))

    def send(self) -> None:
        """The step is over: all that was begun goes to the host. Until then its records wait."""
        for summaries in self._summaries.values():
            summaries.send()
        self._summaries.clear()


@cache
def _triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
