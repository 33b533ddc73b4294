"""Training: a row for each model, its loss against the baseline's by seed, and its parts."""

from collections.abc import Mapping, Sequence
from math import exp
from statistics import fmean

from assay.records.schema import SEVERITY, Record
from assay.reports.contents import UNFINISHED
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table, size_entry, tabulate
from assay.reports.training_rows import (
    LOSS,
    PairedDifference,
    TrainedModel,
    half_interval,
    paired,
    trained_models,
)

STAGES = ("train",)
_PART = "part."
_UNMOVED = "unmoved_parameters"
_LARGEST_LOSS = 690.0  # nats; the perplexity of a larger one is beyond a float
_NOTE = (
    "Model: the first is the baseline. Seeds: those that reached a final loss, of all that were "
    "started; means are over these. Parameters: of the whole model. Tokens: trained on with each "
    "seed. Loss: nats for each token on the fixed validation windows after training, mean over "
    "seeds. Perplexity: e to the power of that mean, with its 95 % interval in brackets (Student's "
    "t over seeds); a single seed has none. Best loss: the lowest validation loss during training, "
    "mean over seeds. Tokens/s: while training, mean over seeds. Peak: the most memory that any "
    "seed held. Time: of training without evaluation, mean over seeds. Unmoved: parameter tensors "
    "that no step moved, the most of any seed. Of matmul: FLOP/s of the model by formula over the "
    "rate of large products that the stage host measured. Sparsity: the share of the weights in "
    "the linear maps of the blocks that is 0. Other numbers in brackets are the lowest and the "
    "highest seed."
)
_AGAINST_NOTE = (
    "Model: all but the baseline. Difference: the model's final loss less that of {baseline}, seed "
    "by seed, in nats for each token: the mean ± half of its 95 % interval (Student's t over n "
    "seeds); below 0 is better. Of loss: the mean as a share of the loss of {baseline} with the "
    "same seeds. Smallest shown: half of the interval, so a mean difference below it cannot be "
    "told from none with these seeds. Verdict: better or worse where the whole interval is below "
    "or above 0, and no difference shown elsewhere, which is no proof that there is none. Each "
    "interval is of one model: of twenty models without any difference, one is expected to look "
    "better or worse."
)
_PARTS_NOTE = (
    "The last value that each part of a model reported, mean over seeds, with the lowest and the "
    "highest seed."
)
_SAMPLES_NOTE = (
    "The beginning of a text that a model writes after the end of a document, drawn with the "
    "seed: something to read, no measure."
)
_SAMPLE_CHARACTERS = 120


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """Models, then their differences to the first where there are several, then their parts."""
    models = trained_models(records)
    if not models:
        return []
    ceilings = {r.subject: r.value for r in records if r.metric == "matmul_rate" and r.value}
    columns = {**_COLUMNS, "of matmul": lambda model: _utilisation(model, ceilings)}
    if any(model.values("sparsity") for model in models):
        columns["sparsity"] = lambda model: _mean(model, "sparsity")
    spare = ("best loss", "time (s)", "parameters", "peak", "tokens")
    note = f"{_NOTE}{_data(models)}"
    made = [tabulate("Training", models, columns, note=note, spare=spare)]
    if len(models) > 1:
        made.append(_against(models[0], models[1:]))
    return [*made, *_parts(models), *_samples(models)]


def _data(models: Sequence[TrainedModel]) -> str:
    """The data of the first run that ended, in a sentence; runs of other data are not compared."""
    run = next((run for model in models for run in model.ended.values()), None)
    if run is None or run.fact("data") is None:
        return ""
    windows = f"{run.fact('windows')} windows ({str(run.fact('eval_stream'))[:12]})"
    return f" Data: {run.fact('data')}, of which {windows} are the validation stream."


def _samples(models: Sequence[TrainedModel]) -> list[Table]:
    """A text of the first seed of each model that has one."""
    rows = []
    for model in models:
        seed, run = min(model.ended.items(), default=(0, None))
        record = run.last("generated_tokens") if run else None
        if record and record.data and "text" in record.data:
            text = str(record.data["text"])[:_SAMPLE_CHARACTERS]
            rows.append((model.name, str(seed), repr(text)))
    columns = ("model", "seed", "text")
    table = Table(title="Samples", columns=columns, rows=tuple(rows), note=_SAMPLES_NOTE)
    return [table] if rows else []


def _against(baseline: TrainedModel, models: Sequence[TrainedModel]) -> Table:
    pairs = [pair for model in models if (pair := paired(model, baseline))]
    note = _AGAINST_NOTE.format(baseline=baseline.name)
    return tabulate(f"Against {baseline.name}", pairs, _PAIR_COLUMNS, note=note)


def _parts(models: Sequence[TrainedModel]) -> list[Table]:
    """One table with a row for each metric of a part and a column for each model with parts."""
    of_model = {model.name: _part_names(model) for model in models}
    names = sorted({name for own in of_model.values() for name in own})
    if not names:
        return []
    shown = [model for model in models if of_model[model.name]]
    rows = tuple(
        (
            name.removeprefix(_PART),
            *(_mean(model, name) if name in of_model[model.name] else DASH for model in shown),
        )
        for name in names
    )
    columns = ("part", *(model.name for model in shown))
    return [Table(title="Parts", columns=columns, rows=rows, note=_PARTS_NOTE)]


def _part_names(model: TrainedModel) -> set[str]:
    records = (record for run in model.seeds.values() for record in run.records)
    return {record.metric for record in records if record.metric.startswith(_PART)}


def _absent(model: TrainedModel, metric: str) -> Entry:
    tone = "" if model.ended else _worst(model)
    return Entry(text=DASH, hint=model.reason(metric), tone=tone)


def _worst(model: TrainedModel) -> str:
    """The worst status of the model's seeds that have no final loss."""
    lost = {run.status for run in model.seeds.values()} - {"ok"}
    return min(lost, key=(*SEVERITY, UNFINISHED).index)


def _mean(model: TrainedModel, metric: str, form: str = "") -> Entry:
    """The mean over seeds, with the lowest and the highest where they differ."""

    def shown(value: float) -> str:
        return form.format(value) if form else number(value)

    values = model.values(metric)
    if not values:
        return _absent(model, metric)
    low, high = shown(min(values)), shown(max(values))
    detail = f"{low}–{high}" if low != high else ""
    return Entry(text=shown(fmean(values)), value=fmean(values), detail=detail)


def _seeds(model: TrainedModel) -> Entry:
    ended, every = len(model.ended), len(model.seeds)
    if ended == every:
        return Entry(text=str(every), value=every)
    text, hint = f"{ended} of {every}", model.reason(LOSS)
    return Entry(text=text, value=ended, hint=hint, tone=_worst(model))


def _tokens(model: TrainedModel) -> Entry:
    counts = [count for run in model.ended.values() if (count := run.fact("tokens")) is not None]
    if not counts:
        return _absent(model, LOSS)
    limits = {run.fact("stopped_by") for run in model.ended.values()}
    detail = [f"{min(counts):,}–{max(counts):,}"] if min(counts) != max(counts) else []
    detail += ["until its time was up"] if "time" in limits else []
    return Entry(text=f"{fmean(counts):,.0f}", value=fmean(counts), detail=", ".join(detail))


def _perplexity(model: TrainedModel) -> Entry:
    losses = model.values(LOSS)
    if not losses:
        return _absent(model, LOSS)
    mean, half = fmean(losses), half_interval(losses)
    interval = "" if half is None else f"{_exp_text(mean - half)}–{_exp_text(mean + half)}"
    return Entry(text=_exp_text(mean), value=exp(min(mean, _LARGEST_LOSS)), detail=interval)


def _exp_text(loss: float) -> str:
    return number(exp(loss)) if loss < _LARGEST_LOSS else f"over {number(exp(_LARGEST_LOSS))}"


def _utilisation(model: TrainedModel, ceilings: Mapping[str, float]) -> Entry:
    """FLOP/s of the model by formula, as a share of what its device reached in large products."""
    own = _mean(model, "mean_model_tflop_per_s")
    devices = {run.fact("device") for run in model.ended.values()}
    ceiling = ceilings.get(devices.pop()) if len(devices) == 1 else None
    if own.value is None:
        return own
    if ceiling is None:
        return Entry(text=DASH, hint="no rate of products was measured here: add the stage host")
    share = own.value / ceiling
    return Entry(text=f"{share:.1%}", value=share, unit="fraction")


def _peak(model: TrainedModel) -> Entry:
    records = (record for run in model.seeds.values() for record in run.records)
    peaks = [r.value for r in records if r.metric == "peak_bytes" and r.value is not None]
    if not peaks:
        return _absent(model, "peak_bytes")
    return size_entry(max(peaks))


def _unmoved(model: TrainedModel) -> Entry:
    """The most of any seed; a count above 0 is a failure, and has its reason."""
    last = [record for run in model.seeds.values() if (record := run.last(_UNMOVED))]
    counted = [record for record in last if record.value is not None]
    if not counted:
        return _absent(model, _UNMOVED)
    worst = max(counted, key=lambda record: record.value)
    tone = "" if worst.status == "ok" else worst.status
    return Entry(text=number(worst.value), value=worst.value, hint=worst.reason or "", tone=tone)


def _difference(pair: PairedDifference) -> Entry:
    if pair.mean is None:
        return Entry(text=DASH, hint=pair.reason, tone="refused")
    half = "" if pair.half_width is None else f" ± {pair.half_width:.4f}"
    return Entry(text=f"{pair.mean:+.4f}{half}", value=pair.mean, detail=f"n {len(pair.by_seed)}")


def _share(pair: PairedDifference) -> Entry:
    if pair.share is None:
        return Entry(text=DASH, hint=pair.reason)
    return Entry(text=f"{pair.share:+.2%}", value=pair.share)


def _smallest(pair: PairedDifference) -> Entry:
    if pair.smallest_detectable is None:
        return Entry(text=DASH, hint=pair.reason or "a single seed has no interval")
    return Entry(text=f"{pair.smallest_detectable:.4f}", value=pair.smallest_detectable)


_COLUMNS = {
    "model": lambda model: model.name,
    "seeds": _seeds,
    "parameters": lambda model: _mean(model, "parameters"),
    "tokens": _tokens,
    "loss": lambda model: _mean(model, LOSS, "{:.4f}"),
    "perplexity": _perplexity,
    "best loss": lambda model: _mean(model, "best_val_loss", "{:.4f}"),
    "tokens/s": lambda model: _mean(model, "mean_tokens_per_s", "{:,.0f}"),
    "peak": _peak,
    "time (s)": lambda model: _mean(model, "train_seconds", "{:,.1f}"),
    "unmoved": _unmoved,
}
_PAIR_COLUMNS = {
    "model": lambda pair: pair.model,
    "difference": _difference,
    "of loss": _share,
    "smallest shown": _smallest,
    "verdict": lambda pair: Entry(text=pair.verdict, detail="; ".join(pair.caveats)),
}
