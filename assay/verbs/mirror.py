"""Replay a run's records to Weights & Biases or trackio, live or later, each point once."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: assay mirror results/gpt2-mla-ablation/20261115T021048.123Z-1f3a --to trackio"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(mirror)
    return app


def mirror(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    to: Annotated[str, typer.Option("--to", help="Trackers, comma between: wandb, trackio.")],
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on while the run goes on, and end with it.")
    ] = False,
    project: Annotated[
        str | None,
        typer.Option(help="The tracker's project; that of the run, or its study, by default."),
    ] = None,
    entity: Annotated[
        str | None, typer.Option(help="The user or team of W&B; yours by default.")
    ] = None,
) -> None:
    from assay.errors import CANNOT_RUN_HERE
    from assay.records import mirroring
    from assay.records.run import open_run

    trackers = mirroring.chosen(to)
    folder, run = open_run(path)
    name = project or os.environ.get("ASSAY_TRACKER_PROJECT") or run.tracker_project or run.study
    owner = entity or os.environ.get("WANDB_ENTITY") or run.config.get("TRACKER_ENTITY", '""')[1:-1]
    destination = mirroring.Destination(
        folder=folder.path.resolve(), project=mirroring.project_name(name), entity=owner or None
    )
    done = mirroring.replay(folder, run, trackers, destination=destination, follow=follow)
    for tracker in trackers:
        if tracker not in done.failures:
            print(f"{tracker}: all {done.points:,} points are in project {name}")
    for tracker, reason in done.failures.items():
        print(f"assay: {tracker}: {reason}", file=sys.stderr)
    if done.failures:  # past the exit hooks of a tracker that failed, which may raise or hang
        sys.stdout.flush()
        os._exit(CANNOT_RUN_HERE)
