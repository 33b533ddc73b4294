"""Loss over tokens, in validation, in training and less the baseline's, over seeds.

Lines are means with the range of the seeds; differences are taken within a seed.
Runs without a final loss are named below the chart, so that no mean is taken over fewer seeds
toward its end.
"""

from statistics import fmean

from assay.records.schema import Record
from assay.reports.chart import Chart, Series
from assay.reports.numerals import counted
from assay.reports.training_rows import TrainedModel, paired, trained_models

_MILLION = 1_000_000
_MOST_POINTS = 60  # of a line: bars of more run into each other
_KINDS = {
    "val_loss": ("validation_loss", "Validation loss"),
    "train_loss": ("training_loss", "Training loss"),
}


def draw(records: list[Record]) -> list[Chart]:
    """A chart of each kind of loss that was reported."""
    models = trained_models(records)
    if not models:
        return []
    validation, training = (_chart(models, metric, *kind) for metric, kind in _KINDS.items())
    return [chart for chart in (validation, _differences(models), training) if chart.series]


def _chart(models: list[TrainedModel], metric: str, name: str, title: str) -> Chart:
    lines = {model.name: _line(model, metric) for model in models}
    absent = [text for model in models for text in _not_drawn(model, lines[model.name])]
    bars = "Means over seeds, with bars from the lowest to the highest seed"
    return Chart(
        name=name,
        title=f"{title} over tokens",
        x_label="tokens (millions)",
        y_label="loss (nats per token)",
        series=tuple(line for line in lines.values() if line),
        note="; ".join([bars, *([f"not drawn: {', '.join(absent)}"] if absent else [])]),
    )


def _differences(models: list[TrainedModel]) -> Chart:
    """Losses less the baseline's, seed by seed: what curves of one scale hide."""
    baseline, *others = models
    compared = [m for m in others if (p := paired(m, baseline)) and p.by_seed]
    lines = [_series(m.name, _paired_curves(m, baseline)) for m in compared]
    return Chart(
        name="validation_difference",
        title=f"Validation loss less that of {baseline.name}",
        x_label="tokens (millions)",
        y_label="difference (nats per token)",
        series=tuple(line for line in lines if line),
        note="Means over pairs with the same seed, with bars from the lowest to the highest",
    )


def _paired_curves(model: TrainedModel, baseline: TrainedModel) -> list[dict[int, float]]:
    """A difference for each number of tokens that both runs of a seed reported."""
    pairs = [
        (run.curve("val_loss"), baseline.ended[seed].curve("val_loss"))
        for seed, run in model.ended.items()
        if seed in baseline.ended
    ]
    return [{at: own[at] - base[at] for at in own if at in base} for own, base in pairs]


def _line(model: TrainedModel, metric: str) -> Series | None:
    """The loss of the seeds that ended; a run that goes on is shown until one has."""
    drawn = model.ended or model.seeds
    curves = [curve for run in drawn.values() if (curve := run.curve(metric))]
    note = "" if model.ended else f"without a final loss ({_status(model)})"
    return _series(model.name, curves, note)


def _series(name: str, curves: list[dict[int, float]], note: str = "") -> Series | None:
    """Points at the numbers of tokens that all curves have; None where there is none."""
    shared = [tokens for tokens in (curves or [{}])[0] if all(tokens in c for c in curves)]
    stride = -(-len(shared) // _MOST_POINTS) or 1
    kept = shared[::-1][::stride][::-1]  # from the end, so that the last is among them
    if not kept:
        return None
    values = [[curve[tokens] for curve in curves] for tokens in kept]
    ranged = len(curves) > 1
    notes = [note] if note else []
    if any(len(curve) > len(shared) for curve in curves):
        notes.append("only where all seeds reported")
    if stride > 1:
        notes.append(f"one report of {stride}")
    return Series(
        subject=name,
        x=tuple(tokens / _MILLION for tokens in kept),
        y=tuple(map(fmean, values)),
        low=tuple(map(min, values)) if ranged else (),
        high=tuple(map(max, values)) if ranged else (),
        note=", ".join(notes),
        hints=(counted(len(curves), "seed"),) * len(kept),
    )


def _not_drawn(model: TrainedModel, line: Series | None) -> list[str]:
    """The model where it has no line, else its seeds that the line leaves out."""
    if line is None:
        why = "no report that its seeds share" if model.ended else _status(model)
        return [f"{model.name} ({why})"]
    left = model.seeds.keys() - model.ended.keys() if model.ended else ()
    return [f"{model.name} seed {seed} ({model.seeds[seed].status})" for seed in sorted(left)]


def _status(model: TrainedModel) -> str:
    """The statuses of a model's seeds, each once."""
    return ", ".join(dict.fromkeys(run.status for run in model.seeds.values()))
