"""Tables of runs side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.verbs._run_sources import letter

if TYPE_CHECKING:
    from assay.trackers.run import TrackerRun
    from assay.trackers.side_by_side import MetricComparison

MOST_COLUMNS = 5  # runs beside each other; more are below each other


def show_runs(runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]") -> None:
    from assay.reports.numerals import number
    from assay.trackers.side_by_side import pace, rate

    timed = pace(runs)
    until = min((c.step for c in comparisons if c.step is not None), default=None)
    rows = []
    for place, run in enumerate(runs):
        steps = [row.step for row in run.history if row.step is not None]
        seconds = timed.seconds_per_step[place] if timed else None
        speed = rate(run, until)
        rows.append(
            (
                letter(place),
                run.name,
                run.identity or "—",
                run.host or "—",
                f"{max(steps):,}" if steps else "—",
                number(seconds) if seconds else "—",
                number(speed[0]) if speed else "—",
            )
        )
    span = f"s per step: steps {timed.first:,} to {timed.last:,}. " if timed else ""
    note = f"{span}tokens/s: the median of what was logged."
    columns = ("run", "name", "identity", "host", "last step", "s per step", "tokens/s")
    table("Runs", columns, rows, note=note, spare=("host", "identity"))


def show_last(runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]") -> None:
    from assay.reports.numerals import number

    if len(runs) > MOST_COLUMNS:
        rows = [
            (c.metric, f"{c.step:,}", letter(place), number(value))
            for c in comparisons
            for place, value in enumerate(c.last)
        ]
        columns: tuple[str, ...] = ("metric", "step", "run", "value")
    else:
        letters = tuple(letter(place) for place in range(len(runs)))
        rows = [(c.metric, f"{c.step:,}", *map(number, c.last), *_change(c)) for c in comparisons]
        columns = ("metric", "step", *letters, *(("B to A",) if len(runs) == 2 else ()))
    if rows:
        table("At the last step that all have", columns, rows)


def _change(comparison: "MetricComparison") -> tuple[str, ...]:
    if len(comparison.last) != 2:
        return ()
    first, second = comparison.last
    return (f"{100 * (second - first) / abs(first):+.2f} %" if first else "—",)


def show_best(runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]") -> None:
    from assay.reports.numerals import number

    rows = [
        (c.metric, letter(place), number(value), f"{step:,}", f"{c.steps:,}")
        for c in comparisons
        for place, (value, step) in enumerate(c.best)
    ]
    columns = ("metric", "run", "best", "at step", "steps in common")
    if rows:
        table("Best among the steps that all have", columns, rows)


def show_changes(comparisons: "Sequence[MetricComparison]") -> None:
    from assay.reports.numerals import number
    from assay.trackers.paired import paired_changes

    rows = [
        (
            each.metric, f"{each.step:,}", number(each.before), number(each.after),
            "—" if each.change is None else f"{each.change:+.2f} %", str(len(each.changes)),
        )
        for each in paired_changes(comparisons)
    ]  # fmt: skip
    if rows:
        columns = ("metric", "step", "before", "after", "change", "pairs")
        table("Before and after, means over pairs", columns, rows)


def show_groups(
    runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]", by: str
) -> None:
    from assay.reports.numerals import number
    from assay.trackers.side_by_side import group_values, grouped_by

    groups = grouped_by(runs, by)
    rows = [
        (
            c.metric, f"{c.step:,}", value.group, str(len(value.values)), number(value.mean),
            number(value.spread) if value.spread is not None else "—",
        )
        for c in comparisons
        for value in group_values(c, groups)
    ]  # fmt: skip
    members = "; ".join(f"{name}: {', '.join(map(letter, of))}" for name, of in groups.items())
    columns = ("metric", "step", by, "n", "mean", "standard deviation")
    if rows:
        table(f"By {by}, at the last step that all have", columns, rows, note=members)


def word(value: Any) -> str:
    return "—" if value is None else str(value)


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    note: str = "",
    spare: tuple[str, ...] = (),
) -> None:
    """Show a table; what is spare is left out where the screen is narrow."""
    from assay.reports.table import Table
    from assay.reports.terminal import console, show

    texts = tuple(map(tuple, rows))
    made = Table(title=title, columns=tuple(columns), rows=texts, note=note, spare=spare)
    show(made, console(), exact_names=True)
