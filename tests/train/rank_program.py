"""Trains cases one after the other in the processes that torchrun started: CASES.json OUT.

A case is {name, kind, double, changes, folder, cut, late, full}: `changes` are to UNEVEN, a run
that is `cut` ends after so many reports, as if killed, and leaves its state in `folder`, and rank 0
has a clock that is `late` seconds behind, or a disk that is `full`. It writes what became of each
case into OUT/NAME.safetensors and OUT/NAME.json, and every rank what it was refused into
OUT/NAME.RANK. The test's own process trains with `trained` too, alone.
"""

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import save_file
from small_settings import SETTINGS

from assay.correctness.models.selection import select
from assay.errors import BadInput, CannotRunHere
from assay.train.data import PreparedData, open_prepared
from assay.train.parallel import ONE_PROCESS, OneProcess, Replicas, ShardedWeights
from assay.train.run import TrainingRun
from assay.train.trainer import Trainer

# 15 wide: no matrix divides over 2 or 4 processes. 5 windows: neither do they.
UNEVEN = replace(
    SETTINGS, heads=3, width=15, dropout=0.0, batch=8, micro_batch=4, steps=8, clip=0.5,
    report_every=1, windows=5, sample_tokens=4,
)  # fmt: skip


def trained(
    case: dict[str, Any], prepared: PreparedData, parallel: OneProcess = ONE_PROCESS
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The final weights of a case, and the losses of every step and window."""
    settings = replace(UNEVEN, **case["changes"])
    torch.set_default_dtype(torch.float64 if case["double"] else torch.float32)
    if case["double"]:
        object.__setattr__(settings, "stream", "float64")
    try:
        (model,) = select([settings.model]).models
        trainer = Trainer(
            settings, model.variant, dict(model.options), prepared,
            device="cpu", folder=Path(case["folder"]), parallel=parallel,
        )  # fmt: skip
        if parallel.rank:
            trainer.position = replace(trainer.position, seconds=float(case["late"]))
        run = TrainingRun(trainer=trainer)
        first, losses = trainer.step, {"train_loss": [], "val_loss": [], "grad_norm": []}
        for update in run.updates():
            for item in update.measurements:
                if item.metric == "val_loss":
                    losses["val_loss"] += item.samples
                elif item.metric in losses:
                    losses[item.metric].append(item.value)
            if update.number == case["cut"]:
                break
        else:
            losses["summary"] = {m.metric: [m.value, m.samples, m.data] for m in run.summary()}
        weights = {n: p.detach().clone() for n, p in trainer.whole_model().named_parameters()}
        return weights, {**losses, "first": first, "step": trainer.step}
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def disk(*, full: bool) -> Iterator[None]:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with mock.patch("assay.models.gpt2.weights_file.os.fsync", refuse) if full else nullcontext():
        yield


def main(cases: Path, out: Path) -> None:
    torch.distributed.init_process_group("gloo")
    groups = {kind.kind: kind(torch.device("cpu")) for kind in (Replicas, ShardedWeights)}
    asked, rank = json.loads(cases.read_text()), int(os.environ["RANK"])
    prepared = open_prepared(Path(asked["prepared"]))
    for case in asked["cases"]:
        try:
            with disk(full=case["full"] and rank == 0):
                weights, losses = trained(case, prepared, groups[case["kind"]])
        except (BadInput, CannotRunHere) as error:
            (out / f"{case['name']}.{rank}").write_text(str(error))
            continue
        if rank == 0:
            save_file(weights, out / f"{case['name']}.safetensors")
            (out / f"{case['name']}.json").write_text(json.dumps(losses))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
