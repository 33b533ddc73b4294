"""Cost of each variant of GPT-2 against the baseline, beside what its counted work predicts.

Two cells: `training` (forward, and forward with backward) and `decode` (one token through a full
cache), at the size of GPT-2 124M on a GPU and tiny on a CPU. Nothing is timed before it is right.
Timed are replays of a CUDA graph, so that the device and not Python is measured; the same pass
launched from Python is a metric of its own. Decoding goes through the kernels of attention/decode;
what is predicted is counted without them.

    assay study run --plugins benchmarks --set STUDY=model-cost --set STAGES=model_cost
"""

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

import msgspec
import torch
from _model_cost import machine, predictions
from _model_cost.machine import Machine
from _model_cost.predictions import TimedPass, value

from assay import host
from assay.attention import decoders
from assay.code_digests import code_digests
from assay.correctness import judge
from assay.correctness.models import tiny
from assay.frameworks.torch import counting
from assay.instruments.operation import in_words
from assay.models.gpt2 import steps, variants
from assay.models.gpt2.config import GPTConfig, ModelConfig
from assay.performance import rounds
from assay.performance.profile import device as profiler
from assay.performance.profile import trace
from assay.performance.rounds import RoundSettings
from assay.plugins import PACKAGE
from assay.records.identity import digest
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects import model as model_subject
from assay.subjects.model import ModelSubject
from assay.subjects.model.expected import LOSS, SCORES
from assay.subjects.outcome import Begin, WrongAnswer, outcome_of

AFTER = ()
ROUNDS_S = 2.0  # of one pass of one variant; what takes longer is timed in fewer rounds
PROFILED_S = 40  # of all variants' profiles of one pass
LARGE = {
    "training": {"size": "124M", "batch": 8, "length": 1024},
    "decode": {"size": "124M", "batches": [64, 1], "length": 1024},
}
SMALL = {
    "training": {"size": "tiny", "batch": 2, "length": 15},
    "decode": {"size": "tiny", "batches": [4, 1], "length": 16},
}
_PROBES = {"training": "training", "decode": "latency"}  # that choose a cell
_CHECKED = 2  # sequences: float32 passes over all of them would take long
_NOISE = 0.02  # on all weights, so that no gate that starts at zero hides its mechanism


def names() -> tuple[str, ...]:
    """Return every variant that a named step has, the baseline first."""
    named = sorted((s for s in steps.STEPS if s.family == "named"), key=lambda s: not s.baseline)
    return tuple(dict.fromkeys(step.variant for step in named))


def cells(study: Study) -> list[Cell]:
    """Two cells, those whose probe the study has (training, or latency for decode), profiled with
    the probe kernels. Parts of models are found by their folder, so that all files there count."""
    code = digest(code_digests(*(PACKAGE / "models").rglob("*.py")))
    settings = {"rounds": study.rounds, "warmup": study.warmup, "budget_s": ROUNDS_S}
    profiled_s = PROFILED_S if "kernels" in study.probes else 0
    common = {"settings": settings, "profiled_s": profiled_s, "machine": None, "code": code}
    return [
        Cell(name=name, subjects=names(), device=study.device, options={**sizes, **common})
        for name, sizes in (SMALL if study.device == "cpu" else LARGE).items()
        if _PROBES[name] in study.probes
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """Measure the machine's ceilings, and the passes of this cell."""
    if cell.options["machine"]:
        ceilings = Machine(**cell.options["machine"])
    else:
        ceilings, measurements = machine.measured(cell.device)
        yield from measurements
    yield from {"training": _training, "decode": _decode}[cell.name](cell, ceilings)


def _training(cell: Cell, ceilings: Machine) -> Iterator[Begin | Measurement]:
    """Check each variant, then time both passes of all of them side by side."""
    options = cell.options
    tokens = random_tokens(cell, options["batch"], options["length"] + 1)
    passes: dict[str, dict[str, ModelSubject]] = {"forward": {}, "training": {}}
    for name in cell.subjects:
        yield Begin(name)
        try:
            model = made(name, cell)
            checked = model_subject.bind(name, model, tokens[:_CHECKED], "forward", cell.device)
            yield value("loss_of_budget", name, check(checked), "ratio", LOSS)
            count = sum(parameter.numel() for parameter in model.parameters())
            yield value("parameters", name, count, "count", "of the model")
            for metric, subjects in passes.items():
                subjects[name] = model_subject.bind(name, model, tokens, metric, cell.device)
        except Exception as error:
            yield outcome_of(error, subject=name, metric="training")
    for metric, subjects in passes.items():
        yield from _timed(metric, subjects, cell, ceilings)


def _decode(cell: Cell, ceilings: Machine) -> Iterator[Begin | Measurement]:
    """Check each variant, then time one token of all of them side by side, for each batch."""
    models: dict[str, Any] = {}
    count = cell.options["length"]
    for name in cell.subjects:
        yield Begin(name)
        try:
            exact = made(name, cell).eval()
            models[name] = copy.deepcopy(exact).bfloat16()
            tokens = random_tokens(cell, _CHECKED, count)
            subject = model_subject.bind_decode(name, models[name], exact, tokens, cell.device)
            yield value("decode_of_budget", name, check(subject), "ratio", SCORES)
        except Exception as error:
            models.pop(name, None)
            yield outcome_of(error, subject=name, metric="decode")
    for batch in cell.options["batches"]:
        metric, tokens = f"decode_b{batch}", random_tokens(cell, batch, count)
        subjects: dict[str, ModelSubject] = {}
        for name, model in models.items():
            yield Begin(name, metric)
            try:
                subject = model_subject.bind_decode(name, model, model, tokens, cell.device)
                source = f"tensors of the cache, {subject.cache.length} tokens of {batch} sequences"
                yield value(f"{metric}_cache_bytes", name, subject.cache.nbytes, "B", source)
                subjects[name] = subject
            except Exception as error:
                yield outcome_of(error, subject=name, metric=metric)
        yield from _timed(metric, subjects, cell, ceilings)


def made(name: str, cell: Cell) -> Any:
    """Return a model in float32 whose weights depend on its name alone."""
    variant = variants.parse(name)
    torch.manual_seed(sum(name.encode()))
    with torch.device(cell.device), torch.no_grad():
        model = variants.model_class(variant)(_config(cell, variants.config_class(variant)))
        for parameter in model.parameters():
            parameter.add_(_NOISE * torch.randn_like(parameter))
    return model


def random_tokens(cell: Cell, batch: int, count: int) -> torch.Tensor:
    """Return the same tokens for every variant, int64 [batch, count]."""
    generator = torch.Generator(cell.device).manual_seed(batch)
    vocabulary, size = _config(cell, GPTConfig).vocab_size, (batch, count)
    return torch.randint(vocabulary, size, device=cell.device, generator=generator)


def _config(cell: Cell, kind: type[ModelConfig]) -> ModelConfig:
    return tiny.config(kind) if cell.options["size"] == "tiny" else kind()


def check(subject: ModelSubject) -> float:
    """Return the output's error over its budget; raises WrongAnswer above 1, and where a parameter
    has no finite gradient."""
    comparisons = judge.compare_all(subject)
    for comparison in comparisons:
        if not comparison.holds:
            raise WrongAnswer(comparison.problem)
    return comparisons[0].share


class _ReplayTime:
    """A paired probe: the pass as the replay of a CUDA graph; on a CPU, which has none, itself."""

    def __init__(self, metric: str) -> None:
        self.metric, self.calls = metric, {}

    def measure(self, subject: ModelSubject, workload: object, host: object) -> list[Measurement]:
        call, source = subject, ""
        if subject.device != "cpu":
            call = subject.framework.captured(subject.apply, subject.inputs, subject.state)
            subject.renewed(1.0)  # capturing moves the states of a cache
            source = "; replays of a CUDA graph"
        self.calls[subject.name] = call
        elapsed_ms = subject.timer.time(call, gives=("out",))
        sample, *_ = subject.timer.measurements(f"{self.metric}_ms", elapsed_ms)
        return [msgspec.structs.replace(sample, source=f"{sample.source}{source}")]


class _EagerTime:
    """A paired probe: the pass launched from Python, until the device is done."""

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def measure(self, subject: ModelSubject, workload: object, host: object) -> list[Measurement]:
        subject.synchronize()
        start = time.perf_counter()
        subject()
        subject.synchronize()
        elapsed_ms = (time.perf_counter() - start) * 1e3
        source = "host clock until the device is done"
        return [value(f"{self.metric}_eager_ms", "", elapsed_ms, "ms", source, [elapsed_ms])]


def _timed(
    metric: str, subjects: dict[str, ModelSubject], cell: Cell, ceilings: Machine
) -> Iterator[Begin | Measurement]:
    """Time a pass of all variants in interleaved rounds, and hold it against its counted work."""
    replays, timed = _ReplayTime(metric), {}
    for item in _rounds(replays, metric, subjects, cell):
        if isinstance(item, Measurement) and item.metric == f"{metric}_ms" and item.samples:
            subject = subjects[item.subject]
            timed[item.subject] = TimedPass(
                measurement=item,
                work=_counted(subject),
                needed_bytes=_needed_bytes(subject),
            )
        else:
            yield item
    yield from predictions.measurements(metric, timed, ceilings)
    eager = {name: subjects[name] for name in timed}
    yield from _rounds(_EagerTime(metric), metric, eager, cell)
    if cell.device != "cpu":
        yield from _kernels(metric, replays.calls, budget_s=cell.options["profiled_s"])


def _counted(subject: ModelSubject) -> list[counting.CountedOperator]:
    """Operators of a pass by torch alone: its dispatcher sees nothing of decode kernels, and what
    a pass is held against does not move with them."""
    layers = subject.cache.layers if subject.cache else ()
    for layer in layers:
        layer.decoder = decoders.TORCH
    try:
        return counting.counted(subject)
    finally:
        for layer in layers:
            layer.decoder = decoders.AUTO


def _rounds(
    probe: Any, metric: str, subjects: dict[str, ModelSubject], cell: Cell
) -> Iterator[Begin | Measurement]:
    settings = RoundSettings(**cell.options["settings"])
    for item in rounds.interleaved(probe, subjects, host.inspect(), settings):
        if isinstance(item, rounds.Failed):
            item = outcome_of(item.error, subject=item.subject, metric=metric)
        yield item


def _needed_bytes(subject: ModelSubject) -> int | None:
    """Bytes that no way to decode can do without: the cache, and all weights but the position
    embedding, one row of which is read. The token embedding is the head too."""
    if subject.cache is None:
        return None
    parameters = subject.implementation.named_parameters()
    used = (p for name, p in parameters if name != "wpe.weight")
    return subject.cache.nbytes + sum(p.numel() * p.element_size() for p in used)


def _kernels(
    metric: str, calls: Mapping[str, Callable[[], Any]], *, budget_s: float
) -> Iterator[Begin | Measurement]:
    """Number of kernels of one call of each variant, and the time in which one is at work, by
    torch's profiler, for as long as the budget lasts; it may be 0."""
    start = time.perf_counter()
    for name, call in calls.items():
        if time.perf_counter() - start >= budget_s:
            return
        yield Begin(name, metric)
        try:
            profiles = profiler.profiled(call, calls=profiler.FEWEST)
        except (trace.Unclear, RuntimeError) as error:
            yield Measurement(
                metric=f"{metric}_kernels_ms",
                subject=name,
                value=None,
                unit="ms",
                status="skipped",
                reason=f"unavailable from torch's profiler: {error}",
            )
            continue
        busy_ms = [trace.busy_ms(kernels) for kernels in profiles]
        source = f"torch's profiler: sum of durations; {len(profiles)} calls"
        yield value(f"{metric}_kernels_ms", name, median(busy_ms), "ms", source, busy_ms)
        kernels = profiles[-1]
        yield value(f"{metric}_kernels", name, len(kernels), "count", in_words(kernels))
