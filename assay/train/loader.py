"""Batches on their way to a device: while a step is computed a worker reads the next one out of the
shards, into pinned memory where the device is a GPU."""

from concurrent.futures import Future, ThreadPoolExecutor

import torch

from assay.train.batches import TrainingBatches

Pair = tuple[torch.Tensor, torch.Tensor]


class Loader:
    """One worker, one batch ahead. A batch depends on its step alone, so a step that is asked for
    twice, or out of turn, has the same."""

    def __init__(self, batches: TrainingBatches, device: torch.device) -> None:
        self._batches, self._pinned = batches, device.type == "cuda"
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")
        self._ahead: tuple[int, Future[Pair]] | None = None

    def at(self, step: int) -> Pair:
        """Inputs and targets of a step, int64 [batch, length] each, in the memory of the host."""
        number, future = self._ahead or (-1, None)
        pair = future.result() if future and number == step else self._read(step)
        self._ahead = step + 1, self._worker.submit(self._read, step + 1)
        return pair

    def _read(self, step: int) -> Pair:
        inputs, targets = (torch.from_numpy(array) for array in self._batches.at(step))
        return (inputs.pin_memory(), targets.pin_memory()) if self._pinned else (inputs, targets)
