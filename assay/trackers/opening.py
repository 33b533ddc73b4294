"""Runs by where they are: paths, names in them, or a project of W&B.

wandb/                    every run below
store.db::first           the run of that name or identity
--entity E --project P    a project on W&B's server
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay import plugins
from assay.errors import BadInput

if TYPE_CHECKING:
    from assay.trackers.run import TrackerRun

KIND = "sources"
SEPARATOR = "::"
_MOST_LISTED = 12


@dataclass(frozen=True, kw_only=True)
class SourceRequest:
    """A path, or a project of a server; with the name of one run, or all of them."""

    path: Path | None = None
    entity: str | None = None
    project: str | None = None
    run_name: str | None = None

    @property
    def words(self) -> str:
        """The path, or the project as W&B's addresses have it."""
        return str(self.path or "/".join(filter(None, (self.entity, self.project))))


def requested(text: str, run_name: str | None = None) -> SourceRequest:
    """The request that a path with or without the name of a run stands for."""
    path, separator, name = text.rpartition(SEPARATOR)
    if not separator or Path(text).exists():
        return SourceRequest(path=Path(text), run_name=run_name)
    return SourceRequest(path=Path(path), run_name=name or run_name)


def is_source(request: SourceRequest) -> bool:
    """True where some source can read it."""
    return any(
        plugins.load(plugin).recognises(request) for plugin in plugins.listing(KIND).values()
    )


def open_runs(request: SourceRequest) -> list["TrackerRun"]:
    """The runs that a request names; a name that several runs have is refused with all of them."""
    if request.path and not request.path.exists():
        raise BadInput(f"there is no file or folder {request.path}")
    sources = [plugins.load(plugin) for plugin in plugins.listing(KIND).values()]
    able = [source for source in sources if source.recognises(request)]
    if not able:
        raise BadInput(
            f"{request.words} holds no run of a tracker; wanted a folder or .wandb file of W&B, a "
            "history exported as CSV, JSON or JSONL, or a .db file of trackio or their folder"
        )
    runs = [run for source in able for run in source.read(request)]
    if not runs:
        raise BadInput(f"{request.words} is there and holds no run")
    return _named(runs, request) if request.run_name else runs


def listed(runs: Sequence["TrackerRun"]) -> str:
    """Runs with their identities, the first dozen of many."""
    more = f" and {len(runs) - _MOST_LISTED} more" if len(runs) > _MOST_LISTED else ""
    return ", ".join(run.label for run in runs[:_MOST_LISTED]) + more


def _named(runs: list["TrackerRun"], request: SourceRequest) -> list["TrackerRun"]:
    identical = [run for run in runs if run.identity == request.run_name]
    matching = identical or [run for run in runs if run.name == request.run_name]
    if not matching:
        raise BadInput(
            f"{request.words} holds no run {request.run_name!r}; it holds {listed(runs)}"
        )
    if len(matching) > 1:
        raise BadInput(
            f"{len(matching)} runs of {request.words} are called {request.run_name!r}: "
            f"{listed(matching)}; give the identity of the one you mean"
        )
    return matching
