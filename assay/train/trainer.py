"""One arm of a study: a model, its optimizer and its data, step by step.

A step is a pure function of the state and the step's number: batches are drawn by seed and number
(batches.py), so a run that is resumed from a saved state goes on with the same bits, on a CPU, and
on a GPU where kernels are deterministic.
"""

import math
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint as recomputed

from assay.errors import BadInput
from assay.frameworks.torch import first_calls
from assay.instruments.out_of_memory import ran_out
from assay.models.gpt2 import checkpoint, variants
from assay.models.gpt2.sizes import ModelSize, sized
from assay.records.durable import make_folder
from assay.records.identity import digest
from assay.train import saved_state
from assay.train.batches import TrainingBatches, ValidationWindows
from assay.train.data import PreparedData
from assay.train.loader import Loader
from assay.train.optimizing import optimizer_of
from assay.train.parallel import ONE_PROCESS, OneProcess, own_seed, whole
from assay.train.saved_state import Position
from assay.train.schedule import learning_rate
from assay.train.settings import TrainSettings
from assay.train.validation import window_losses


class LossNotFinite(Exception):
    """The loss of a step is NaN or infinite."""


@dataclass(frozen=True, kw_only=True)
class StepsReport:
    """Means over the steps since the last report."""

    loss: float
    gradient_norm: float
    seconds: float


class Trainer:
    """An arm in training, from its saved state where `folder` has one."""

    def __init__(
        self,
        settings: TrainSettings,
        variant: variants.Variant,
        options: dict[str, Any],
        data: PreparedData,
        *,
        device: str,
        folder: Path,
        folders: Sequence[Path] = (),
        parallel: OneProcess = ONE_PROCESS,
    ) -> None:
        """`folder` is for the state, `folders` have plugins of the user's; `parallel` knows the
        other processes of the run."""
        self.settings, self.data, self.folder = settings, data, folder
        self.folders, self.parallel = tuple(folders), parallel
        self.device = torch.device(device)
        prepare_process(settings, device)
        torch.manual_seed(settings.seed)
        size = ModelSize(
            layers=settings.layers, heads=settings.heads, width=settings.width,
            length=settings.length, vocabulary=padded(data.vocabulary), dropout=settings.dropout,
        )  # fmt: skip
        config = sized(variants.config_class(variant), size, options)
        self.model = variants.model_class(variant, folders)(config).to(self.device)
        self.model.stream = getattr(torch, settings.stream)
        self._loss = parallel.loss_of(self.model)
        if settings.recompute:
            for block in self.model.h:
                block.forward = partial(recomputed, block.forward, use_reentrant=False)
        self.optimizer, self.pruning = optimizer_of(self.model, settings, folders)
        self.batches = TrainingBatches(
            data.train, seed=settings.seed, batch=settings.batch, length=settings.length
        )
        self.loader = Loader(self.batches, self.device)
        self.validation = ValidationWindows(
            data.validation, length=settings.length, count=settings.windows
        )
        self.validation.require(settings.windows)
        self.position = self._start()
        if settings.compiled:
            self._loss = torch.compile(self._loss)
        self._losses: list[torch.Tensor] = []
        self._norms: list[torch.Tensor] = []
        self._since = time.monotonic()

    def _start(self) -> Position:
        """The position that was saved last, with everything restored, or that of a new run."""
        settings_digest = digest(_identity(self.settings))
        kept, world = saved_state.last(self.folder), self.parallel.world
        if kept is None:
            if self.parallel.rank:  # of the first process, the draws are those of a single one
                torch.manual_seed(own_seed([self.settings.seed, self.parallel.rank]))
            return Position(
                step=0, seconds=0.0, micro_batch=self.settings.micro_batch,
                data_digest=self.data.digest, settings_digest=settings_digest, best_loss=None,
                best_step=None, initial_digests=saved_state.digests(self.model), processes=world,
            )  # fmt: skip
        for name, wanted, given in (
            ("data", kept.data_digest, self.data.digest),
            ("settings", kept.settings_digest, settings_digest),
        ):
            if wanted != given:
                raise BadInput(
                    f"{self.folder} was trained with other {name} ({wanted[:20]}, these are "
                    f"{given[:20]}); start another run, or remove this folder"
                )
        saved_state.restore(
            self.folder, kept, self.model, self.optimizer, self.folders, self.parallel
        )
        if kept.processes != world:  # what fits into one is another part of the batch
            kept = replace(kept, processes=world, micro_batch=self.settings.micro_batch)
        return kept

    @property
    def step(self) -> int:
        return self.position.step

    @property
    def seconds(self) -> float:
        """Seconds of training until now, over all processes."""
        return self.position.seconds + time.monotonic() - self._since

    def stopped_by(self) -> str | None:
        """The limit that has been reached: steps, tokens or time; None while there is none."""
        settings = self.settings
        if self.step >= settings.steps:
            return "steps"
        if settings.most_tokens and self.step * settings.tokens_per_step >= settings.most_tokens:
            return "tokens"
        limit = settings.most_seconds
        return "time" if limit and self.parallel.agreed(self.seconds) >= limit else None

    def take_step(self) -> None:
        """One step of the optimizer on one batch, in micro-batches."""
        micro = self.position.micro_batch or self._choose_micro_batch()
        self._set_learning_rate()
        loss, norm = self._gradients(micro)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.pruning:
            self.pruning.after_step(self.step + 1)
        self._losses.append(loss)
        self._norms.append(norm)
        self.position = replace(self.position, step=self.step + 1, micro_batch=micro)

    def report(self) -> StepsReport:
        """Means since the last report; raises LossNotFinite."""
        means = torch.stack([torch.stack(kept).mean() for kept in (self._losses, self._norms)])
        loss, norm = self.parallel.mean(means).tolist()
        if not math.isfinite(loss + norm):
            raise LossNotFinite(
                f"the loss is {loss} and the norm of its gradient {norm} within the "
                f"{len(self._losses)} steps before step {self.step}"
            )
        self._losses, self._norms = [], []
        seconds = self.seconds
        self.position = replace(self.position, seconds=seconds)
        self._since = time.monotonic()
        return StepsReport(loss=loss, gradient_norm=norm, seconds=seconds)

    def save(self) -> None:
        """Make this step the one from which a later process goes on."""
        self.position = saved_state.save(
            self.folder, self.model, self.optimizer, self.position, self.parallel
        )
        self._since = time.monotonic()  # what is written is not trained

    def evaluate(self) -> list[float]:
        """The loss of each window of the validation stream, in nats per token."""
        losses = self._window_losses(self.model, self.parallel)
        self._since = time.monotonic()  # what is evaluated is not trained
        return losses

    def evaluate_whole(self, model: torch.nn.Module) -> list[float]:
        """The same of a model with all of its weights, every window in this process."""
        return self._window_losses(model, ONE_PROCESS)

    def whole_model(self) -> torch.nn.Module:
        """The model with all of its weights on this process's device. All must ask for it."""
        return self.parallel.whole(self.model).to(self.device)

    def _window_losses(self, model: torch.nn.Module, parallel: OneProcess) -> list[float]:
        return window_losses(
            model, self.validation, device=self.device, autocast=self.autocast, parallel=parallel
        )

    def is_best(self, loss: float) -> bool:
        """Note the loss of an evaluation; True where it is the least, and then write the model."""
        if self.pruning and self.step < self.pruning.plan.last:
            return False  # of a model that has more weights than was asked for
        if self.position.best_loss is not None and loss >= self.position.best_loss:
            return False
        self.position = replace(self.position, best_loss=loss, best_step=self.step)
        model = self.parallel.whole(self.model)
        self.parallel.first(lambda: self._write_best(model, loss))
        return True

    def _write_best(self, model: torch.nn.Module, loss: float) -> None:
        make_folder(self.folder)
        path = self.folder / saved_state.BEST
        checkpoint.save(model, path, step=self.step, validation_loss=loss)

    def unmoved(self) -> list[str]:
        """Parameters that are bit for bit as they were before the first step."""
        now = saved_state.digests(self.model)
        return [name for name, first in self.position.initial_digests.items() if now[name] == first]

    def _gradients(self, micro: int, *, averaged: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss of this process's rows of a batch and norm of the gradient of all, which is left in
        the parameters; of these rows' own where it is not `averaged`."""
        inputs, targets = self.loader.at(self.step)
        count = self.settings.batch // micro
        total = torch.zeros((), device=self.device)
        for first in range(0, self.settings.batch, micro):
            rows = self.parallel.rows(first, micro)
            x, y = (part[rows].to(self.device, non_blocking=True) for part in (inputs, targets))
            complete = averaged and first + micro == self.settings.batch
            with self.parallel.gradients(complete=complete):
                with self.autocast():
                    loss = self._loss(x, y)
                (loss / count).backward()
            total += loss.detach() / count
        if self.pruning and averaged:
            self.pruning.mask_gradients()
        clip = self.settings.clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        return total, whole(norm)

    def _choose_micro_batch(self) -> int:
        """The largest part of a batch whose step fits in memory; tried before the first step."""
        batch, world = self.settings.batch, self.parallel.world
        for micro in (d for d in range(batch, 0, -1) if batch % d == 0 and d % world == 0):
            if self.device.type == "cpu" or self._fits(micro, is_least=micro == world):
                return micro
        raise AssertionError("the least micro-batch fits or has raised")

    def _fits(self, micro: int, *, is_least: bool) -> bool:
        """True where a step in parts of `micro` fits into the memory of every process; raises where
        even the least does not."""
        short = False
        try:
            with torch.random.fork_rng(devices=[self.device]):
                self._gradients(micro, averaged=False)
        except Exception as error:
            if not ran_out(error) or is_least:
                raise
            short = True
        self.optimizer.zero_grad(set_to_none=True)
        if short := bool(self.parallel.most(short)):
            torch.cuda.empty_cache()
        return not short

    def _set_learning_rate(self) -> None:
        rate = learning_rate(self.step, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_factor", 1.0)

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of forward passes."""
        if self.settings.dtype == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.settings.dtype))


def padded(vocabulary: int) -> int:
    """The vocabulary up to a multiple of 64, as products want it; the rest is never a target."""
    return -(-vocabulary // 64) * 64


def _identity(settings: TrainSettings) -> dict[str, Any]:
    """Settings that a resumed run must share: all but where it ends and what it writes."""
    free = ("data_folder", "sample_tokens", "most_seconds", "part_metrics", "evals")
    return {name: value for name, value in vars(settings).items() if name not in free}


def prepare_process(settings: TrainSettings, device: str) -> None:
    """Set switches of torch, some of which its libraries read once, when they first compute."""
    first_calls.resolve()
    if device != "cpu":
        torch.set_float32_matmul_precision("high")
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    if settings.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
