"""Statistics of one step on a GPU: gathered there, copied together, finished together.

The model's thread starts one kernel for each tensor, and at the end of the step one copy for all
tensors that are alike; the writer's thread waits for that and makes statistics of them at once.
"""

import threading

import torch
from torch import Tensor

from assay.captures.manifest import Statistics
from assay.captures.torch.statistics import as_BHSD, joined
from assay.captures.torch.statistics_triton import PART, Plan, plan_for

_TENSORS = 16  # for which memory is taken at a time


class Summaries:
    """Of one step and one device. `add` and `send` are the model's, `statistics` the writer's."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._sheets: dict[Plan, list[Sheet]] = {}
        self._arrived = torch.cuda.Event(blocking=True)
        self._sent = threading.Event()

    def add(self, tensor: Tensor) -> tuple["Sheet", int]:
        """Begin to sum up a tensor; its place here."""
        whole = as_BHSD(tensor.detach())
        plan = plan_for(whole)
        sheets = self._sheets.setdefault(plan, [])
        if not sheets or sheets[-1].full:
            sheets.append(Sheet(plan, self._device))
        return sheets[-1], sheets[-1].add(whole)

    def send(self) -> None:
        """Begin to copy all; nothing is added behind this."""
        with torch.cuda.device(self._device):
            for sheets in self._sheets.values():
                for sheet in sheets:
                    sheet.send()
            self._arrived.record()
        self._sent.set()

    def statistics(self, place: tuple["Sheet", int]) -> Statistics:
        """Of the tensor at a place, when it has arrived."""
        self._sent.wait()
        self._arrived.synchronize()
        sheet, number = place
        return sheet.finished()[number]


class Sheet:
    """Summaries of tensors that are alike."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self._plan = plan
        self._count = 0
        self._memory: Tensor | None = torch.empty(
            (_TENSORS, *plan.shape), dtype=torch.float32, device=device
        )
        self._host: Tensor | None = None
        self._found: list[Statistics] = []

    @property
    def full(self) -> bool:
        return self._count == _TENSORS

    def add(self, whole: Tensor) -> int:
        assert self._memory is not None
        self._plan.begin(whole, self._memory[self._count])
        self._count += 1
        return self._count - 1

    def send(self) -> None:
        """Sizes joined over stretches and parts as they are, in one piece."""
        assert self._memory is not None
        used, channels = self._memory[: self._count], self._plan.channels
        sizes = used[..., :channels].amax(dim=1)
        parts = used[..., channels : channels + PART]
        together = torch.cat([sizes.flatten(1), parts.flatten(1)], dim=1)
        self._host = torch.empty(together.shape, dtype=together.dtype, pin_memory=together.is_cuda)
        self._host.copy_(together, non_blocking=True)
        self._memory = None

    def finished(self) -> list[Statistics]:
        """Of all its tensors; computed when first asked for."""
        if self._host is not None:
            plan, numbers = self._plan, self._host.numpy()
            width = plan.blocks * plan.channels
            sizes = numbers[:, : plan.heads * width].reshape(-1, plan.heads, width)
            parts = numbers[:, plan.heads * width :].reshape(self._count, -1, PART)
            sizes = sizes[..., : plan.dim].reshape(self._count, -1)
            self._found = joined(sizes, parts)
            self._host = None
        return self._found
