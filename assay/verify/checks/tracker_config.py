"""The symbols of a run are those that its mirrors in trackers say, where their files are here.

They lie in the run's own folder, in WANDB_DIR and in the folder of trackio.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from assay.errors import BadInput, CannotRunHere
from assay.records.points import typed
from assay.trackers.opening import SourceRequest, is_source, open_runs
from assay.trackers.run import TrackerRun
from assay.trackers.sources.trackio_store import default_folder
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [finding for run in comparison.runs if run.folder for finding in _of(run)]


def _of(run: ComparedRun) -> list[CheckFinding]:
    """Compare with every place that holds a mirror of the run; silent where it has none."""
    findings, mirrors = [], []
    for place in _places(run):
        try:
            held = [each for each in open_runs(SourceRequest(path=place)) if _is_of(each, run)]
        except (BadInput, CannotRunHere) as error:
            findings.append(not_tested(f"{run.name}: {error}"))
        else:
            mirrors += [(place.name, each) for each in held]
    differing = [
        f"{symbol} is {ours} and {theirs} in {place}"
        for place, each in mirrors
        for symbol, ours, theirs in _differing(run, each)
    ]
    if differing:
        findings.append(fails(f"{run.name} and its mirrors differ: {named(differing)}"))
    elif mirrors:
        words = f"{len(run.run.config)} symbols as in {len(mirrors)} runs of its mirrors"
        findings.append(holds(f"{run.name}: {words}"))
    elif run.run.tracker_project and not findings:
        project = run.run.tracker_project
        findings.append(not_tested(f"{run.name}: its mirror in project {project} is not here"))
    return findings


def _places(run: ComparedRun) -> Iterator[Path]:
    assert run.folder is not None
    project = run.run.tracker_project or run.run.study
    folders = [run.folder / "wandb"]
    if "\0" not in project:  # which no file's name has
        folders.append(default_folder() / f"{project}.db")
    if elsewhere := os.environ.get("WANDB_DIR"):
        folders.append(Path(elsewhere) / "wandb")
    for place in dict.fromkeys(folder.resolve() for folder in folders):
        if place.exists() and is_source(SourceRequest(path=place)):
            yield place


def _is_of(tracked: TrackerRun, run: ComparedRun) -> bool:
    return tracked.config.get("run") == run.run.run


def _differing(run: ComparedRun, tracked: TrackerRun) -> Iterator[tuple[str, str, str]]:
    """Symbols with both values, one that is on one side only too."""
    ours = {name: typed(text) for name, text in run.run.config.items()}
    theirs = {name: value for name, value in tracked.config.items() if name.isupper()}
    for name in sorted(ours | theirs):
        if name not in theirs or name not in ours or ours[name] != theirs[name]:
            yield name, _word(ours, name), _word(theirs, name)


def _word(values: dict, name: str) -> str:
    return repr(values[name]) if name in values else "not said"
