"""The processes of a training run, as the symbols TRAIN_PARALLEL and TRAIN_PROCESSES ask for them.

Needs no torch. What several processes compute equals what one does (docs/parallel.md), so neither
is among the settings that a resumed run must share.
"""

import sys
from dataclasses import dataclass

from assay.errors import BadInput
from assay.train.settings import TrainSettings

NONE, DDP, FSDP = KINDS = ("none", "ddp", "fsdp")


@dataclass(frozen=True, kw_only=True)
class Processes:
    """So many processes, each with all weights (ddp) or with a shard of them (fsdp)."""

    kind: str = NONE
    count: int = 1

    def require(self, settings: TrainSettings, *, device: str, accelerators: int) -> None:
        """Refuse what cannot be divided; `accelerators` are those of this machine from `device`
        on."""
        if self.kind == NONE and self.count > 1:
            raise BadInput(
                f"TRAIN_PROCESSES={self.count} with TRAIN_PARALLEL=none; wanted ddp or fsdp for "
                "several processes"
            )
        if self.kind != NONE and sys.platform == "win32":
            raise BadInput(f"TRAIN_PARALLEL={self.kind} needs named pipes, which Windows lacks")
        for name, size in (("BATCH", settings.batch), ("MICRO_BATCH", settings.micro_batch)):
            if size % self.count:
                raise BadInput(
                    f"TRAIN_{name}={size} sequences do not divide over TRAIN_PROCESSES="
                    f"{self.count}; give a multiple of {self.count}, or another number of processes"
                )
        if self.kind != NONE and settings.compiled:
            raise BadInput(
                f"TRAIN_COMPILED with TRAIN_PARALLEL={self.kind} is not supported; leave one of "
                "them out"
            )
        if device.startswith("cuda:"):
            self._require_devices(settings, device, accelerators)

    def _require_devices(self, settings: TrainSettings, device: str, accelerators: int) -> None:
        if self.count > accelerators:
            raise BadInput(
                f"TRAIN_PROCESSES={self.count} need a GPU each, from {device} on there are "
                f"{accelerators}; give at most so many, or DEVICE_CPU=y"
            )
        if self.kind == FSDP and not settings.micro_batch:
            raise BadInput(
                "TRAIN_MICRO_BATCH=0 with TRAIN_PARALLEL=fsdp: a process that runs out of memory "
                "while one is looked for would leave the others waiting; give a micro-batch"
            )


def device_of(device: str, local_rank: int) -> str:
    """The device of a process: GPUs one after the other from `device` on."""
    kind, _, index = device.partition(":")
    return device if kind == "cpu" else f"{kind}:{int(index or 0) + local_rank}"
