"""The verb `runs compare`: values at the same step, by run or by group, and what differs."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._run_sources import Entity, Metric, Project, RunName, Sources, letter, named_runs
from assay.verbs._run_tables import (
    MOST_COLUMNS,
    show_best,
    show_changes,
    show_groups,
    show_last,
    show_runs,
    table,
    word,
)

if TYPE_CHECKING:
    from assay.trackers.run import TrackerRun
    from assay.trackers.side_by_side import MetricComparison

COMPARE = "Example: assay runs compare wandb --by host --figures figures"

By = Annotated[str | None, typer.Option("--by", help="host, group, or a key of the configuration.")]
Figures = Annotated[
    Path | None, typer.Option("--figures", help="A folder for pictures, PNG at 300 DPI.")
]
Before = Annotated[str | None, typer.Option("--before", help="A source: runs before a change.")]
After = Annotated[str | None, typer.Option("--after", help="A source: the same runs after it.")]


def compare(
    sources: Sources = None,
    entity: Entity = None,
    project: Project = None,
    run_name: RunName = None,
    metric: Metric = None,
    by: By = None,
    before: Before = None,
    after: After = None,
    figures: Figures = None,
    as_json: flags.Json = False,
) -> None:
    """Put runs side by side, at steps that all of them have; or groups of them."""
    from assay.errors import BadInput
    from assay.trackers.opening import listed
    from assay.trackers.paired import paired
    from assay.trackers.side_by_side import compared

    if bool(before) != bool(after) or (before and (sources or by)):
        raise BadInput("--before and --after are given together, and no other source with them")
    if before and after:
        sides = (named_runs([place], None, None, None) for place in (before, after))
        runs = paired(*sides)
    else:
        runs = _with_history(named_runs(sources, entity, project, run_name))
    if len(runs) < 2:
        given = runs[0].label if runs else "none with a history"
        raise BadInput(f"one run was given ({given}), wanted two or more to compare")
    comparisons = [c for c in compared(runs) if not metric or c.metric in metric]
    read = {name for run in runs for row in run.system for name in row.values}
    if not comparisons and (readings := [name for name in metric or () if name in read]):
        raise BadInput(
            f"{', '.join(readings)}: a reading of the machine, which has no step to compare at; "
            "`assay runs gpu` shows those of each run"
        )
    if not comparisons:
        raise BadInput(
            f"the {len(runs)} runs ({listed(runs[:3])}, ...) share no metric"
            + (f" of those named: {', '.join(metric)}" if metric else "")
            + "; `assay runs keys` lists what each has"
        )
    if as_json:
        _print_json(runs, comparisons, by)
    else:
        _tell(runs, comparisons, by=by, in_pairs=bool(before))
    if figures:
        from assay.verbs._run_figures import draw

        files = draw(figures, runs, comparisons, by=by, in_pairs=bool(before))
        if not as_json:
            print(f"{len(files)} figures in {figures}")


def _with_history(runs: "list[TrackerRun]") -> "list[TrackerRun]":
    """Those runs that have points; others, such as tables of a stage, are named and left out."""
    from assay.trackers.opening import listed

    if without := [run for run in runs if not any(row.values for row in run.history)]:
        print(f"left out, for they have no history: {listed(without)}", file=sys.stderr)
    return [run for run in runs if run not in without]


def _print_json(
    runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]", by: str | None
) -> None:
    from assay.trackers.side_by_side import config_differences, group_values, grouped_by, pace

    names = [{"run": letter(i), "name": r.name, "identity": r.identity} for i, r in enumerate(runs)]
    print(json.dumps({"runs": names}))
    for comparison in comparisons:
        print(json.dumps(asdict(comparison)))
        if by:
            groups = group_values(comparison, grouped_by(runs, by))
            print(
                json.dumps(
                    {
                        "metric": comparison.metric,
                        "by": by,
                        "groups": [
                            {**asdict(g), "mean": g.mean, "spread": g.spread} for g in groups
                        ],
                    }
                )
            )
    timed = pace(runs)
    print(json.dumps({"pace": asdict(timed) if timed else None}))
    print(json.dumps({"config_differences": config_differences(runs)}, default=str))


def _tell(
    runs: "Sequence[TrackerRun]",
    comparisons: "Sequence[MetricComparison]",
    *,
    by: str | None,
    in_pairs: bool,
) -> None:
    from assay.trackers.side_by_side import config_differences

    print(_changed(comparisons) if in_pairs else _answer(runs, comparisons))
    apart = [c.metric for c in comparisons if c.step is None]
    if apart:
        print(f"no step in common, so not compared: {', '.join(apart)}")
    short = [c for c in comparisons if c.step is not None and max(c.own_last) > c.step]
    if short:
        print("some runs go on after the last common step; what comes there is not compared")
    if wild := _not_finite(runs, comparisons):
        print(f"values that are not finite are left out: {wild}")
    show_runs(runs, comparisons)
    shared = [c for c in comparisons if c.step is not None]
    if in_pairs:
        show_changes(shared)
    elif by:
        show_groups(runs, shared, by)
    else:
        show_last(runs, shared)
        show_best(runs, [c for c in shared if c.best])
    differing = config_differences(runs)
    texts = [(name, *map(word, values)) for name, values in differing.items()]
    letters = [letter(place) for place in range(len(runs))]
    if texts and len(runs) <= MOST_COLUMNS:
        table("Configurations differ in", ("key", *letters), texts)
    elif texts:
        print(f"configurations differ in {', '.join(differing)}")
    elif any(run.config for run in runs):
        print("configurations do not differ")


def _not_finite(runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]") -> str:
    """Where and how often a compared metric is NaN or infinite, which is itself a result."""
    from assay.trackers.metric_points import points
    from assay.trackers.run import NOT_FINITE

    return ", ".join(
        f"{count} of {each.metric} in {letter(place)}"
        for each in comparisons
        for place, run in enumerate(runs)
        if (count := points(run, each.metric).unusable.get(NOT_FINITE))
    )


def _foremost(comparisons: "Sequence[MetricComparison]") -> "MetricComparison | None":
    """The metric to answer with: one that says which way is better, validation before all."""
    ranked = [c for c in comparisons if c.better and c.step is not None]
    ranked.sort(key=lambda c: ("val" not in c.metric, "loss" not in c.metric))
    return ranked[0] if ranked else None


def _changed(comparisons: "Sequence[MetricComparison]") -> str:
    from assay.reports.numerals import counted, number
    from assay.trackers.paired import paired_changes

    first = _foremost(comparisons)
    changes = paired_changes([first] if first else comparisons)
    if not changes or changes[0].change is None:
        return f"{len(comparisons)} metrics in common"
    each, *_ = changes
    values = f"{number(each.before)} before, {number(each.after)} after"
    pairs = counted(len(each.changes), "pair")
    return f"{each.metric} at step {each.step:,}: {values}, {each.change:+.2f} % over {pairs}"


def _answer(runs: "Sequence[TrackerRun]", comparisons: "Sequence[MetricComparison]") -> str:
    from assay.reports.numerals import number

    first = _foremost(comparisons)
    if first is None:
        return f"{len(runs)} runs share {len(comparisons)} metrics"
    pick = min if first.better == "lower" else max
    best = pick(first.last)
    names = " and ".join(letter(i) for i, value in enumerate(first.last) if value == best)
    rest = sorted(value for value in first.last if value != best)
    ends = " to ".join(dict.fromkeys(number(value) for value in (*rest[:1], *rest[-1:])))
    against = f", {'the others' if len(rest) > 1 else 'the other'} {ends}" if rest else ""
    verb = "have" if first.last.count(best) > 1 else "has"
    return f"{first.metric} at step {first.step:,}: {names} {verb} {number(best)}{against}"
