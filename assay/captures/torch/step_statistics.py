"""Statistics of all tensors of one step, delivered to the host together.

On a GPU the model's thread launches one kernel per tensor and, at the end of the step, one copy per
buffer of tensors that are alike; the writer's thread waits for these copies. Elsewhere, and where
Triton is missing, each tensor is summarised by itself.
"""

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assay.captures.manifest import Statistics
from assay.captures.torch.statistics import PART, as_BHSD, combine, start_summary
from assay.captures.torch.transfer import HostTransfer

if TYPE_CHECKING:
    from assay.captures.torch.statistics_triton import SummaryKernel

_BUFFER_TENSORS = 16


class StepStatistics:
    """Statistics of one model's tensors in the step that is running."""

    def __init__(self) -> None:
        self._batches: dict[torch.device, SummaryBatch] = {}

    def add(self, name: str, tensor: Tensor, transfer: HostTransfer) -> None:
        """Start on a floating tensor that is not empty; `transfer` delivers the result."""
        if not (tensor.is_cuda and _has_triton() and tensor.dtype != torch.float64):
            transfer.add_summary(name, *start_summary(tensor))
            return
        batch = self._batches.get(tensor.device)
        if batch is None:
            batch = self._batches[tensor.device] = SummaryBatch(tensor.device)
        transfer.add_statistics(name, batch.add(tensor))

    def send(self) -> None:
        """End the step: copy all summaries to the host. Until then its records wait."""
        for batch in self._batches.values():
            batch.send()
        self._batches.clear()


class SummaryBatch:
    """Summaries of one step on one GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: dict[SummaryKernel, list[SummaryBuffer]] = {}
        self._arrived = torch.cuda.Event(blocking=True)
        self._sent = threading.Event()

    def add(self, tensor: Tensor) -> Callable[[], Statistics]:
        """Start to summarise a tensor; the function returned waits for its statistics."""
        from assay.captures.torch.statistics_triton import kernel_for

        tensor_BHSD = as_BHSD(tensor.detach())
        kernel = kernel_for(tensor_BHSD)
        buffers = self._buffers.setdefault(kernel, [])
        if not buffers or buffers[-1].full:
            buffers.append(SummaryBuffer(kernel, self._device))
        buffer = buffers[-1]
        row = buffer.add(tensor_BHSD)

        def statistics() -> Statistics:
            self._sent.wait()
            self._arrived.synchronize()
            return buffer.statistics()[row]

        return statistics

    def send(self) -> None:
        """Start to copy every summary; nothing is added after this."""
        with torch.cuda.device(self._device):
            for buffers in self._buffers.values():
                for buffer in buffers:
                    buffer.send()
            self._arrived.record()
        self._sent.set()


class SummaryBuffer:
    """Summaries of tensors that one kernel serves."""

    def __init__(self, kernel: "SummaryKernel", device: torch.device) -> None:
        self._kernel = kernel
        self._count = 0
        # [tensors, stretches, heads, blocks, channels + SPARE]
        self._memory: Tensor | None = torch.empty(
            (_BUFFER_TENSORS, *kernel.shape), dtype=torch.float32, device=device
        )
        self._host: Tensor | None = None
        self._statistics: list[Statistics] = []

    @property
    def full(self) -> bool:
        return self._count == _BUFFER_TENSORS

    def add(self, tensor_BHSD: Tensor) -> int:
        """Start to summarise a tensor; its row."""
        assert self._memory is not None
        self._kernel.launch(tensor_BHSD, self._memory[self._count])
        self._count += 1
        return self._count - 1

    def send(self) -> None:
        """Start one copy of all rows: maxima reduced over stretches, parts as they are."""
        assert self._memory is not None
        used, channels = self._memory[: self._count], self._kernel.channels
        maxima = used[..., :channels].amax(dim=1)  # [tensors, heads, blocks, channels]
        parts = used[..., channels : channels + PART]  # [tensors, stretches, heads, blocks, PART]
        rows = torch.cat([maxima.flatten(1), parts.flatten(1)], dim=1)
        self._host = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=rows.is_cuda)
        self._host.copy_(rows, non_blocking=True)
        self._memory = None

    def statistics(self) -> list[Statistics]:
        """Statistics of all its tensors, computed when first asked for."""
        if self._host is not None:
            kernel, numbers = self._kernel, self._host.numpy()
            width = kernel.blocks * kernel.channels  # dim, rounded up to whole blocks
            maxima = numbers[:, : kernel.heads * width].reshape(-1, kernel.heads, width)
            parts = numbers[:, kernel.heads * width :].reshape(self._count, -1, PART)
            maxima = maxima[..., : kernel.dim].reshape(self._count, -1)
            self._statistics = combine(maxima, parts)
            self._host = None
        return self._statistics


@cache
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
