"""Runs that the flags of `assay runs` name, each with a letter that tables call it by."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assay.trackers.run import TrackerRun

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SOURCE]...",
        help="Folders and .wandb files of W&B, exports as CSV, JSON or JSONL, .db files of "
        "trackio; SOURCE::NAME for one run of several. By default ./wandb and TRACKIO_DIR.",
    ),
]
Entity = Annotated[str | None, typer.Option("--entity", help="User or team on W&B's server.")]
Project = Annotated[str | None, typer.Option("--project", help="A project on W&B's server.")]
RunName = Annotated[
    list[str] | None,
    typer.Option("--run-name", help="Only the run of this name or identity; repeatable."),
]
Metric = Annotated[list[str] | None, typer.Option("--metric", help="Only this metric; repeatable.")]


def named_runs(
    sources: list[str] | None, entity: str | None, project: str | None, names: list[str] | None
) -> "list[TrackerRun]":
    """All runs that were asked for; of two of one name, none is picked."""
    from assay.errors import BadInput
    from assay.trackers.opening import SourceRequest, open_runs, requested

    if sources and (entity or project):
        raise BadInput("give paths, or --entity and --project, not both")
    if entity and not project:
        raise BadInput("--entity needs --project, the project to read")
    places = [requested(text) for text in sources or ([] if project else _default_sources())]
    if project:
        owner = entity or os.environ.get("WANDB_ENTITY")
        places = [SourceRequest(entity=owner, project=project)]
    runs = [run for place in places for run in open_runs(place)]
    return _chosen(runs, names) if names else runs


def letter(place: int) -> str:
    """The name of a run in tables: A, B ... Z, then by number."""
    return chr(ord("A") + place) if place < 26 else f"R{place + 1}"


def _default_sources() -> list[str]:
    from assay.errors import BadInput

    places = [Path(os.environ.get("WANDB_DIR") or ".") / "wandb"]
    if os.environ.get("TRACKIO_DIR"):
        places.append(Path(os.environ["TRACKIO_DIR"]))
    there = [str(place) for place in places if place.is_dir()]
    if not there:
        raise BadInput(
            "no source was given, and there is neither ./wandb nor TRACKIO_DIR; give a folder, an "
            "export or a store, or --entity and --project"
        )
    return there


def _chosen(runs: "list[TrackerRun]", names: list[str]) -> "list[TrackerRun]":
    from assay.errors import BadInput
    from assay.trackers.opening import listed

    chosen = []
    for name in names:
        matching = [run for run in runs if run.identity == name]
        matching = matching or [run for run in runs if run.name == name]
        if not matching:
            raise BadInput(f"there is no run {name!r}; there are {listed(runs)}")
        if len(matching) > 1:
            raise BadInput(
                f"{len(matching)} runs are called {name!r}: {listed(matching)}; give the identity "
                "of the one you mean"
            )
        chosen += matching
    return chosen
