"""A training run from its start, or from where it was left, to its end, as measurements.

Loss is in nats for each token. Seconds are those of training: neither evaluation nor writing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from msgspec.structs import replace

from assay.instruments.telemetry import UNITS, Telemetry
from assay.models.gpt2.sampling import generate
from assay.records.schema import Measurement
from assay.train.part_metrics import codec_metrics, gate_means
from assay.train.pruning import Pruning
from assay.train.trainer import StepsReport, Trainer

FLOPS = (
    "formula: 6 for each weight of a matrix and token, 12 for each number of a head, layer and "
    "token of a sequence; over the seconds of training"
)
MEAN_FLOPS = "mean_model_tflop_per_s"
READING = "the device, once at this report; the median over the run is recorded at its end"
STREAM = "mean over the validation stream, which is the same for every arm"


@dataclass(frozen=True, kw_only=True)
class Update:
    """A report: its number from 1 on, how many there will be, and its losses in words."""

    number: int
    total: int
    words: str
    measurements: Sequence[Measurement]


@dataclass(kw_only=True)
class TrainingRun:
    """The measurements of one arm; every one has the seed with it."""

    trainer: Trainer
    telemetry: Telemetry | None = None  # read at each report
    ceiling: float | None = None  # TFLOP/s of large products here
    losses: list[float] | None = None  # of the validation windows, at `evaluated`
    evaluated: int = -1  # step

    @property
    def total(self) -> int:
        settings = self.trainer.settings
        return -(-settings.steps // settings.report_every)

    def updates(self) -> Iterator[Update]:
        """Train to the end. What was yielded is saved after it, where it is due."""
        trainer, settings = self.trainer, self.trainer.settings
        first = trainer.step == 0
        before = trainer.seconds
        while not trainer.stopped_by():
            measurements = self._evaluation() if first else []
            first = False
            trainer.take_step()
            ended = trainer.stopped_by() is not None
            while not ended and trainer.step % settings.report_every:
                trainer.take_step()
                ended = trainer.stopped_by() is not None
            report = trainer.report()
            if self.telemetry:
                self.telemetry.read()
            measurements += self._report(report, report.seconds - before)
            if ended or trainer.step % settings.evaluate_every == 0:
                measurements += self._evaluation()
            number = -(-trainer.step // settings.report_every)
            words = self._words(report, report.seconds - before)
            yield Update(
                number=number, total=max(number, self.total), words=words, measurements=measurements
            )
            before = report.seconds
            if ended or trainer.step % settings.save_every == 0:
                trainer.save()

    def summary(self) -> Iterator[Measurement]:
        """The end of a run that `updates` has brought to its end."""
        trainer = self.trainer
        self._evaluation()
        assert self.losses is not None
        about = {
            "eval_stream": trainer.validation.digest,
            "windows": trainer.validation.count,
            "data": trainer.data.description.words,
            "dataset": trainer.settings.dataset,
            "dataset_digest": trainer.data.digest,
            "stopped_by": trainer.stopped_by(),
            "micro_batch": trainer.position.micro_batch,
            "device": str(trainer.device),
            "parallel": trainer.parallel.kind,
            "processes": trainer.parallel.world,
        }
        yield self._measurement(
            "final_val_loss", fmean(self.losses), "nats", self.losses, STREAM, **about
        )
        best, step = trainer.position.best_loss, trainer.position.best_step
        reason = None if step is not None else "it ended before its weights were pruned"
        yield self._measurement("best_val_loss", best, "nats", reason=reason, step=step)
        seconds = trainer.position.seconds
        yield self._measurement("train_seconds", seconds, "s")
        rate = self._tokens(trainer.step) / seconds if seconds else None
        reason = None if seconds else "its time was over before the first step"
        yield self._measurement("mean_tokens_per_s", rate, "tokens/s", reason=reason)
        flops = None if rate is None else self._tflop(rate)
        yield self._measurement(MEAN_FLOPS, flops, "TFLOP/s", source=FLOPS, reason=reason)
        yield self._measurement("parameters", trainer.model.get_num_params(), "count")
        yield from self._readings()
        if trainer.device.type == "cpu":
            reason = "torch counts the memory of a GPU only"
            yield self._measurement("peak_bytes", None, "B", reason=reason)
        yield self._unmoved()
        if trainer.pruning:
            yield self._sparsity(trainer.pruning)
        if trainer.settings.part_metrics:
            yield from self._parts()
        yield self._sample()

    def _evaluation(self) -> list[Measurement]:
        """The loss on the validation stream; nothing where this step has it already."""
        if self.evaluated == self.trainer.step:
            return []
        self.losses, self.evaluated = self.trainer.evaluate(), self.trainer.step
        mean = fmean(self.losses)
        self.trainer.is_best(mean)
        return [self._measurement("val_loss", mean, "nats", self.losses, STREAM)]

    def _report(self, report: StepsReport, elapsed_s: float) -> list[Measurement]:
        trainer, rate = self.trainer, self._rate(elapsed_s)
        applied = trainer.optimizer.param_groups[0]["lr"]
        values = [
            ("train_loss", report.loss, "nats", "mean over the steps since the last report"),
            ("learning_rate", applied, "1", "of the optimizer's first group, in the last step"),
            ("grad_norm", report.gradient_norm, "1", "before it is clipped, mean over the steps"),
            ("tokens_per_s", rate, "tokens/s", None),
            ("model_tflop_per_s", self._tflop(rate), "TFLOP/s", FLOPS),
        ]
        if trainer.device.type == "cuda":
            source = "torch's allocator, since the process began; of several the most"
            values.append(("peak_bytes", self._peak(), "B", source))
        readings = self.telemetry.latest() if self.telemetry else {}
        values += [(name, value, UNITS[name], READING) for name, value in readings.items()]
        return [self._measurement(n, v, unit, source=source) for n, v, unit, source in values]

    def _rate(self, elapsed_s: float) -> float:
        settings = self.trainer.settings
        steps = self.trainer.step % settings.report_every or settings.report_every
        return self._tokens(steps) / max(elapsed_s, 1e-9)

    def _tokens(self, steps: int) -> int:
        return steps * self.trainer.settings.tokens_per_step

    def _tflop(self, tokens_per_s: float) -> float:
        model, settings = self.trainer.model, self.trainer.settings
        matrices = sum(p.numel() for p in model.parameters() if p.ndim >= 2)
        matrices -= model.wpe.weight.numel()
        flops = 6 * matrices + 12 * settings.layers * settings.width * settings.length
        return tokens_per_s * flops / 1e12

    def _words(self, report: StepsReport, elapsed_s: float) -> str:
        trainer, rate = self.trainer, self._rate(elapsed_s)
        words = [
            f"step {trainer.step} of {trainer.settings.steps}",
            f"epoch {trainer.batches.epoch(trainer.step):.2f}",
            f"loss {report.loss:.3f}",
        ]
        if self.losses is not None:
            words.append(f"validation {fmean(self.losses):.3f} (step {self.evaluated})")
        words.append(f"{rate:,.0f} tokens/s")
        words.append(f"{self._tokens(1000) / rate:.3g} s for 1,000 steps")
        if self.ceiling:
            words.append(f"{self._tflop(rate) / self.ceiling:.0%} of matmul")
        if trainer.device.type == "cuda":
            words.append(f"{self._peak() / 2**30:.1f} GiB")
        return ", ".join(words)

    def _peak(self) -> int:
        """Bytes that torch's allocator held at most since the process began, in the process where
        that is most."""
        own = torch.cuda.max_memory_allocated(self.trainer.device)
        return int(self.trainer.parallel.most(own))

    def _unmoved(self) -> Measurement:
        names = self.trainer.unmoved()
        if not names:
            return self._measurement("unmoved_parameters", 0, "count")
        return Measurement(
            subject=self.trainer.settings.arm,
            metric="unmoved_parameters",
            value=float(len(names)),
            unit="count",
            status="failed",
            reason=f"no step moved {', '.join(names[:6])}{' and more' if len(names) > 6 else ''}",
            level="model",
            data={"seed": self.trainer.settings.seed, "names": names},
        )

    def _sparsity(self, pruning: Pruning) -> Measurement:
        """The share of the linear maps' weights that is 0 and stays so; failed where it is not the
        one that was asked for."""
        asked, zeros = pruning.plan.sparsity, pruning.zeros()
        last = pruning.plan.last
        reached = self._measurement(
            "sparsity", zeros / pruning.total, "1", source="counted in the weights",
            asked=asked, score=pruning.plan.score, weights=pruning.total,
        )  # fmt: skip
        if zeros == round(asked * pruning.total):
            return reached
        reason = (
            f"{zeros:,} of {pruning.total:,} weights are pruned, asked was a share of {asked}"
            + (f"; the run ended before step {last}" if self.trainer.step < last else "")
        )
        return replace(reached, status="failed", reason=reason)

    def _readings(self) -> Iterator[Measurement]:
        """Clock, power and temperature of the device, a sample for each report since this process
        began."""
        settings, world = self.trainer.settings, self.trainer.parallel.world
        for reading in self.telemetry.measurements() if self.telemetry else ():
            if reading.source and world > 1 and self.trainer.device.type == "cuda":
                words = f"{reading.source}; of {self.trainer.device}, one of {world} devices"
                reading = replace(reading, source=words)
            yield replace(reading, subject=settings.arm, data={"seed": settings.seed})

    def _parts(self) -> Iterator[Measurement]:
        trainer = self.trainer
        model = trainer.whole_model()
        with gate_means(model) as means:
            trainer.evaluate_whole(model)
        for name, value in (codec_metrics(model) | means()).items():
            yield self._measurement(f"part.{name}", value, "1")

    def _sample(self) -> Measurement:
        """A text that the model goes on with from the end of a document, by a generator of its
        own."""
        trainer = self.trainer
        count = min(trainer.settings.sample_tokens, trainer.settings.length - 1)
        start = torch.tensor([[trainer.data.tokenizer.end]], device=trainer.device)
        generator = torch.Generator(trainer.device).manual_seed(trainer.settings.seed)
        model = trainer.whole_model().eval()
        tokens = generate(model, start, tokens=count, generator=generator)[0, 1:].tolist()
        model.train()
        known = [token for token in tokens if token < trainer.data.vocabulary]
        text = trainer.data.tokenizer.decode(known)
        return self._measurement("generated_tokens", len(tokens), "count", text=text)

    def _measurement(
        self,
        metric: str,
        value: float | None,
        unit: str,
        samples: Sequence[float] = (),
        source: str | None = None,
        reason: str | None = None,
        **data: Any,
    ) -> Measurement:
        trainer = self.trainer
        place = {
            "seed": trainer.settings.seed,
            "step": trainer.step,
            "tokens": self._tokens(trainer.step),
            "seconds": trainer.position.seconds,
        }
        return Measurement(
            subject=trainer.settings.arm,
            metric=metric,
            value=None if value is None else float(value),
            unit=unit,
            samples=list(samples),
            source=source,
            reason=reason,
            level="model",
            data=place | data,
        )
