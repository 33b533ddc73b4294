"""Read runs back from W&B and trackio: what they hold, how busy their GPUs were, side by side."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from assay.verbs import _flags as flags
from assay.verbs._run_comparison import COMPARE, compare
from assay.verbs._run_sources import Entity, Metric, Project, RunName, Sources, letter, named_runs
from assay.verbs._run_tables import table

if TYPE_CHECKING:
    from assay.trackers.gpu_use import GpuUse, RunGpuUse
    from assay.trackers.run import TrackerRun

KEYS = "Example: assay runs keys wandb"
GPU = "Example: assay runs gpu wandb/offline-run-20261118_071658-dyxl3ldb"
_EVEN, _UNEVEN = 5.0, 20.0  # coefficient of variation over GPUs, in percent
_READING = (
    "ran: share of time in which at least one kernel ran, however little of the chip it used.\n"
    "bus: share of time in which memory was read or written; low is no sign of a bandwidth limit.\n"
    "held: memory taken, not traffic. power: and its share of the limit. °C: mean, most.\n"
    "Means over the active time; idle before and after it, below 5 % of time with a kernel, apart."
)


def command() -> typer.Typer:
    app = typer.Typer(no_args_is_help=True, add_completion=False, help=f"{__doc__} {KEYS}")
    app.command(help=f"{keys.__doc__} {KEYS}")(keys)
    app.command(help=f"{gpu.__doc__} {GPU}")(gpu)
    app.command(help=f"{compare.__doc__} {COMPARE}")(compare)
    return app


def keys(
    sources: Sources = None,
    entity: Entity = None,
    project: Project = None,
    run_name: RunName = None,
    metric: Metric = None,
    as_json: flags.Json = False,
) -> None:
    """List the metrics of runs, history and system apart, with their points, steps and holes."""
    from assay.reports.numerals import counted

    runs = named_runs(sources, entity, project, run_name)
    rows, others = [], 0
    for place, run in enumerate(runs):
        own = _metrics(run)
        others += sum(row["kind"] == "other" for row in own)
        rows += [
            {
                "run": letter(place),
                "project": run.project,
                "name": run.name,
                "identity": run.identity,
                **row,
            }
            for row in own
            if row["kind"] != "other" and (not metric or row["metric"] in metric)
        ]
    if as_json:
        _print_json(rows)
        return
    counts = {kind: len({r["metric"] for r in rows if r["kind"] == kind}) for kind in _KINDS}
    words = f"{counts['history']} metrics in history, {counts['system']} of the system"
    print(f"{counted(len(runs), 'run')}: {words}")
    if holes := sum(bool(row["holes"]) for row in rows):
        print(f"{holes} of {len(rows)} rows have holes; nothing is filled in")
    if others:
        print(f"{others} more names hold no numbers (texts, pictures, tables)")
    _show_runs(runs)
    for kind in _KINDS:
        _show_keys(kind, [row for row in rows if row["kind"] == kind])


_KINDS = ("history", "system")


def _metrics(run: "TrackerRun") -> list[dict[str, Any]]:
    from assay.trackers.metric_points import all_points
    from assay.trackers.run import NO_NUMBER

    rows = []
    for kind, logged in (("history", run.history), ("system", run.system)):
        for points in all_points(logged).values():
            wordy = not points.count and set(points.unusable) == {NO_NUMBER}
            steps = points.steps
            rows.append(
                {
                    "kind": "other" if wordy else kind,
                    "metric": points.metric,
                    "points": points.count,
                    "first": steps[0] if steps else None,
                    "last": steps[-1] if steps else None,
                    "holes": points.holes,
                }
            )
    return rows


def _show_runs(runs: "Sequence[TrackerRun]") -> None:
    rows = []
    for place, run in enumerate(runs):
        steps = [row.step for row in run.history if row.step is not None]
        span = f"{min(steps):,} to {max(steps):,}" if steps else "no history"
        remarks = "; ".join(run.remarks)
        rows.append(
            {
                "run": letter(place),
                "project": run.project or "—",
                "name": run.name,
                "identity": run.identity or "—",
                "steps": span,
                "state": run.state or "—",
                "remarks": remarks,
            }
        )
    columns = [*rows[0]]
    if len({row["project"] for row in rows}) == 1:
        columns.remove("project")
    if not any(row["remarks"] for row in rows):
        columns.remove("remarks")
    spare = () if "remarks" in columns else ("state",)
    table("Runs", columns, [tuple(row[c] for c in columns) for row in rows], spare=spare)


def _show_keys(kind: str, rows: list[dict[str, Any]]) -> None:
    from assay.reports.table import Entry

    if not rows:
        return
    columns = ("run", "metric", "points", "first step", "last step", "holes")
    if kind == "system":
        columns = ("run", "metric", "points", "holes")

    def entry(row: dict[str, Any], column: str) -> Any:
        value = row[column.partition(" ")[0]]
        if isinstance(value, int):
            return Entry(text=f"{value:,}", value=value)
        return "—" if value is None else str(value)

    texts = [tuple(entry(row, column) for column in columns) for row in rows]
    table(kind.capitalize(), columns, texts)


def gpu(
    sources: Sources = None,
    entity: Entity = None,
    project: Project = None,
    run_name: RunName = None,
    as_json: flags.Json = False,
) -> None:
    """Say how busy the GPUs of runs were, their memory, power and temperature, and how evenly."""
    from dataclasses import asdict

    from assay.trackers.gpu_use import gpu_use

    runs = named_runs(sources, entity, project, run_name)
    uses = [gpu_use(run) for run in runs]
    if as_json:
        for place, (run, use) in enumerate(zip(runs, uses, strict=True)):
            for each in use.gpus:
                print(json.dumps({"run": letter(place), "name": run.name, **asdict(each)}))
            print(json.dumps({"run": letter(place), "name": run.name, "balance": use.balance}))
        return
    silent = [letter(place) for place, use in enumerate(uses) if not use.gpus]
    for place, use in list(enumerate(uses))[:3]:
        if use.gpus:
            print(f"{letter(place)} {runs[place].name}: {_answer(use)}")
    if silent:
        print(f"no readings of a GPU in {', '.join(silent)}")
    rows = [row for place, use in enumerate(uses) for row in _gpu_rows(letter(place), use)]
    if rows:
        table("GPUs", _GPU_COLUMNS, rows, note=_READING)


_GPU_COLUMNS = ("run", "GPU", "ran", "bus", "held", "power", "°C", "active", "idle")


def _answer(use: "RunGpuUse") -> str:
    from statistics import fmean

    from assay.reports.numerals import counted

    busy = [each.means["busy"] for each in use.gpus if "busy" in each.means]
    words = [counted(len(use.gpus), "GPU")]
    if busy:
        words.append(f"a kernel ran in {fmean(busy):.0f} % of the active time")
    if "busy" in use.balance:
        spread = use.balance["busy"]
        word = "even" if spread < _EVEN else "uneven" if spread >= _UNEVEN else "somewhat uneven"
        words.append(f"load {word}: coefficient of variation {spread:.1f} %")
    if idle := [each.gpu for each in use.gpus if each.is_idle]:
        words.append(f"no kernel was seen on GPU {', '.join(idle)}")
    paused = max(each.unsampled_s for each in use.gpus)
    if paused:
        words.append(f"nothing was sampled for {paused:.0f} s, which count for nothing")
    if use.untimed:
        words.append(f"{use.untimed} samples without a time are left out")
    return ", ".join(words)


def _gpu_rows(run: str, use: "RunGpuUse") -> list[tuple[str, ...]]:
    return [(run, *_gpu_row(each)) for each in use.gpus]


def _gpu_row(use: "GpuUse") -> tuple[str, ...]:
    from assay.reports.numerals import size_in_bytes

    def mean(quantity: str, unit: str) -> str:
        return f"{use.means[quantity]:.0f}{unit}" if quantity in use.means else "—"

    held = mean("held", " %")
    if "held" not in use.means and "held_bytes" in use.means:
        held = size_in_bytes(int(use.means["held_bytes"]))
    of_limit = f", {mean('of_limit', ' %')}" if "of_limit" in use.means else ""
    hottest = f", {use.most['temperature']:.0f}" if "temperature" in use.most else ""
    ends = (use.idle_before_s, use.idle_after_s)
    idle = "—" if None in ends else ", ".join(f"{seconds:.0f}" for seconds in ends) + " s"
    return (
        use.gpu, mean("busy", " %"), mean("bus_busy", " %"), held, mean("power", " W") + of_limit,
        mean("temperature", "") + hottest, f"{use.seconds:.0f} s", idle,
    )  # fmt: skip


def _print_json(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        print(json.dumps(row))
