"""Pictures of runs side by side, for print: curves, groups, before and after, time per step."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.reports.chart import Chart
    from assay.trackers.run import TrackerRun
    from assay.trackers.side_by_side import MetricComparison

_MOST_POINTS = 300  # of a curve: more cannot be told apart in print


def draw(
    folder: Path,
    runs: "Sequence[TrackerRun]",
    comparisons: "Sequence[MetricComparison]",
    *,
    by: str | None,
    in_pairs: bool,
) -> list[Path]:
    """Write the pictures that these runs allow, each with where its values are from."""
    from assay import plugins
    from assay.errors import CannotRunHere
    from assay.records.durable import make_folder, write_atomically
    from assay.reports import printed, style
    from assay.reports.chart import ChartGroup

    if not plugins.installed("matplotlib"):
        how = plugins.how_to_install(["matplotlib"])
        raise CannotRunHere(f"--figures needs matplotlib, which is not installed; {how}")
    make_folder(folder)
    source = "; ".join(f"{run.label} of {run.place}" for run in runs)
    files: list[Path] = []
    for chart in _charts(runs, comparisons, by, in_pairs):
        colours = style.colours(series.subject for series in chart.series)
        group = ChartGroup(charts=(chart,))
        file = _free(folder, group.file_stem, files)
        write_atomically(file, printed.png(group, colours, source=source))
        files.append(file)
    return files


def _free(folder: Path, stem: str, taken: Sequence[Path]) -> Path:
    """A name that no other picture of this call has: a/b and a_b have one stem."""
    names = (stem, *(f"{stem}-{number}" for number in range(2, len(taken) + 3)))
    return next(file for name in names if (file := folder / f"{name}.png") not in taken)


def _charts(
    runs: "Sequence[TrackerRun]",
    comparisons: "Sequence[MetricComparison]",
    by: str | None,
    in_pairs: bool,
) -> "Iterator[Chart]":
    shared = [each for each in comparisons if each.step is not None]
    if in_pairs:
        yield from _before_after(shared)
    elif by:
        yield from _grouped(runs, shared, by)
    yield from _curves(runs, [each for each in shared if each.steps > 1])
    yield from _overhead(runs)


def _curves(
    runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]"
) -> "Iterator[Chart]":
    """A metric over the steps; the name of a curve has its value at the last common step."""
    from assay.reports.chart import Chart, Series
    from assay.reports.numerals import number
    from assay.trackers.metric_points import points
    from assay.verbs._run_sources import letter

    for each in comparisons:
        series = []
        for place, (run, last) in enumerate(zip(runs, each.last, strict=True)):
            curve = points(run, each.metric)
            every = -(-len(curve.steps) // _MOST_POINTS)
            steps = sorted({*curve.steps[::every], curve.steps[-1]})
            name = f"{letter(place)} {run.name}: {number(last)} at step {each.step:,}"
            values = tuple(curve.by_step[step] for step in steps)
            series.append(Series(subject=name, x=tuple(map(float, steps)), y=values))
        title = f"{each.metric} of {len(runs)} runs"
        yield Chart(
            name=f"comparison-{each.metric}", title=title, x_label="step", y_label=each.metric,
            series=tuple(series),
        )  # fmt: skip


def _grouped(
    runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]", by: str
) -> "Iterator[Chart]":
    """Means of groups as bars, with every run as a dot."""
    from assay.reports.chart import Chart, Series
    from assay.reports.numerals import number
    from assay.trackers.side_by_side import group_values, grouped_by

    groups = grouped_by(runs, by)
    for each in comparisons:
        series, dots = [], []
        for value in group_values(each, groups):
            spread = f" ± {number(value.spread)}" if value.spread is not None else ""
            words = f"{number(value.mean)}{spread}, n {len(value.values)}"
            name = value.group
            series.append(Series(subject=name, x=(name,), y=(value.mean,), labels=(words,)))
            dots.append(Series(subject=name, x=(name,) * len(value.values), y=value.values))
        yield Chart(
            name=f"grouped-{each.metric}", title=f"{each.metric} at step {each.step:,} by {by}",
            x_label=by, y_label=f"{each.metric}, mean ± standard deviation", series=tuple(series),
            bars=True, dots=tuple(dots),
        )  # fmt: skip


def _before_after(comparisons: "Sequence[MetricComparison]") -> "Iterator[Chart]":
    """Relative change of each metric, with every pair as a dot."""
    from assay.reports.chart import Chart, Series
    from assay.reports.numerals import number
    from assay.trackers.paired import paired_changes

    series, dots = [], []
    for each in paired_changes(comparisons):
        if each.change is None:
            continue
        name = f"{each.metric}, step {each.step:,}"
        words = f"{number(each.before)} → {number(each.after)}, {each.change:+.2f} %"
        series.append(Series(subject=name, x=(name,), y=(each.change,), labels=(words,)))
        dots.append(Series(subject=name, x=(name,) * len(each.changes), y=each.changes))
    if series:
        yield Chart(
            name="before-after", title="Change from before to after", x_label="metric",
            y_label="relative change (%)", series=tuple(series), bars=True, dots=tuple(dots),
        )  # fmt: skip


def _overhead(runs: "Sequence[TrackerRun]") -> "Iterator[Chart]":
    """Time of a step relative to that of the first run."""
    from assay.reports.chart import Chart, Series
    from assay.reports.numerals import number
    from assay.trackers.side_by_side import pace
    from assay.verbs._run_sources import letter

    timed = pace(runs)
    if timed is None or None in timed.seconds_per_step:
        return
    series = []
    for place, (run, seconds) in enumerate(zip(runs, timed.seconds_per_step, strict=True)):
        share = seconds / timed.seconds_per_step[0]
        name = f"{letter(place)} {run.name}"
        words = f"{share:.3f}, {number(seconds)} s"
        series.append(Series(subject=name, x=(name,), y=(share,), labels=(words,)))
    yield Chart(
        name="overhead", title=f"Time of a step, steps {timed.first:,} to {timed.last:,}",
        x_label="run", y_label="relative to the first run", series=tuple(series), bars=True,
        limit=1.0, limit_name="the first run",
    )  # fmt: skip
