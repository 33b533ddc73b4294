"""Runs that are compared: what each says of itself, and in what they may differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.errors import BadInput
from assay.records.run import load_records, open_run
from assay.records.schema import Record, Run, Session

# Symbols that say what is compared: where one of them alone differs, it is the treatment.
TREATMENTS = (
    "MODELS", "TRAIN_OPTIMIZERS", "IMPLEMENTATIONS", "LAYERS", "DECODERS", "CACHE_LAYOUTS"
)  # fmt: skip
# Symbols of what is measured with: whoever changes one measures something else.
YARDSTICKS = (
    "TRAIN_DATASET", "TRAIN_PLACE", "TRAIN_TOKENIZER", "TRAIN_VOCABULARY", "TRAIN_WINDOWS",
    "TRAIN_EVALS", "TRAIN_SEEDS", "WORKLOADS", "SEED",
)  # fmt: skip
# Where runs end and what each one ended with.
FINAL = "final_val_loss"


@dataclass(frozen=True, kw_only=True)
class TrackerOrigin:
    """Where a run was read from that no folder of ours holds, and how its names were read."""

    place: str
    mirrored: bool  # assay made it, so its configuration is symbols
    read_as: Mapping[str, str]  # symbol or metric -> its own name there
    unsaid: tuple[str, ...]  # what it does not say
    keys: Mapping[str, str] = field(default_factory=dict)  # its own name of a symbol -> the symbol
    unknown: frozenset[str] = frozenset()  # keys of its program that no name of ours stands for
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedRun:
    """A run by its records alone; nothing that it names is imported."""

    name: str
    run: Run
    records: tuple[Record, ...]
    folder: Path | None = None  # None of a run that was read from a tracker
    origin: TrackerOrigin | None = None  # of such a run

    def symbol(self, name: str) -> str | None:
        """The value of a symbol in its configuration; None where it knows no such symbol."""
        value = self.run.config.get(name)
        return None if value is None else value.strip('"')

    def of(self, metric: str) -> list[Record]:
        return [record for record in self.records if record.metric == metric]

    @property
    def sessions(self) -> list[Session]:
        """The starts of the run that its records come from."""
        made = {record.session for record in self.records}
        return [session for session in self.run.sessions if session.number in made]

    @property
    def gpus(self) -> list[dict[str, Any] | None]:
        """The devices it used, in each session; None for one that its host did not list."""
        used = [name if ":" in name else f"{name}:0" for name in self.run.devices or ()]
        return [
            {f"{d.get('kind')}:{d.get('index')}": d for d in session.host.get("devices", ())}.get(
                name
            )
            for session in self.sessions
            for name in used
        ]


def load(path: Path) -> ComparedRun:
    """The run in a folder: one below results/, or one of evidence/."""
    _, run = open_run(path)
    if not run.sessions:
        raise BadInput(f"{path}: run.json names no session, so nothing says where it ran")
    records = tuple(load_records(path))
    return ComparedRun(name=path.resolve().name, run=run, records=records, folder=path)


def distinct(runs: Sequence[ComparedRun]) -> tuple[ComparedRun, ...]:
    """Runs, those of the same name numbered."""
    if len({run.name for run in runs}) < len(runs):
        runs = [replace(run, name=f"{run.name} ({n})") for n, run in enumerate(runs, start=1)]
    return tuple(runs)


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """One run, whose arms are compared, or two; with the symbols that are meant to differ, by name
    why others may, and where commits are to be public."""

    runs: tuple[ComparedRun, ...]
    treatment: tuple[str, ...] = ()
    explained: Mapping[str, str] = field(default_factory=dict)
    remote: str | None = None

    @cached_property
    def treated(self) -> tuple[str, ...]:
        """The treatment: as given, else the one symbol that says what is compared and differs."""
        differing = [name for name in TREATMENTS if len(self.values(name)) > 1]
        return self.treatment or (tuple(differing) if len(differing) == 1 else ())

    def values(self, symbol: str) -> set[str | None]:
        return {run.symbol(symbol) for run in self.runs}

    def final(self) -> list[tuple[str, Record]]:
        """The last losses of all arms and seeds, each with where it stands."""
        return [(f"{run.name} {r.cell}", r) for run in self.runs for r in run.of(FINAL)]

    def ends(self) -> list[tuple[str, Record]]:
        """The last losses; where no run has validated, the last ones that it was trained with."""
        trained = {f"{run.name} {r.cell}": r for run in self.runs for r in run.of("train_loss")}
        return self.final() or list(trained.items())
