"""Runs of trackers as runs that are compared: a `run.json` and records made of what they hold.

A run that assay mirrored has its symbols in its configuration; any other is read by the names in
trackers/aliases.py. What is not there stays unknown: nothing is taken for granted.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assay.errors import BadInput
from assay.records.run import RUN_FILE
from assay.records.schema import SCHEMA, Run, Session
from assay.trackers.aliases import PLACES, SEEDS, ReadConfig, is_mirrored, read_config
from assay.trackers.opening import SEPARATOR, is_source, listed, open_runs, requested
from assay.trackers.run import TrackerRun
from assay.verify import compared
from assay.verify.compared import FINAL, ComparedRun, TrackerOrigin
from assay.verify.trackers.records import of_history, of_mirror

# Keys of a mirrored run that are no symbols.
_ABOUT = (
    "run", "study", "stage", "cell", "attempt", "commit", "dirty", "host", "subject", "seed",
)  # fmt: skip
# What is asked of every run that trains: where one is silent, it is named.
_ASKED = (
    "TRAIN_LEARNING_RATE", "TRAIN_WARMUP", "TRAIN_BATCH", "TRAIN_STEPS", "TRAIN_DTYPE",
    "TRAIN_COMPILED", "TRAIN_OPTIMIZERS", "TRAIN_WEIGHT_DECAY", "TRAIN_CLIP", "TRAIN_DATASET",
    "TRAIN_LENGTH",
)  # fmt: skip


def load_all(paths: Sequence[Path]) -> tuple[ComparedRun, ...]:
    """Runs of ours by their folders, and trackers' by where they are; names are made distinct."""
    return compared.distinct([load(path) for path in paths])


def load(path: Path) -> ComparedRun:
    """One run; the runs of one source that differ in their seed alone are its arms."""
    request = requested(str(path))
    is_ours = (path / RUN_FILE).exists() or request.path is None or not request.path.exists()
    if is_ours or not is_source(request):
        return compared.load(path)
    runs = open_runs(request)
    name = request.run_name or (runs[0].name if len(runs) == 1 else _folder_name(path.resolve()))
    mirrored = [is_mirrored(run) for run in runs]
    if all(mirrored):
        return _of_ours(name, _of_one_run(path, runs))
    if any(mirrored):
        _refuse(path, runs, "runs that assay mirrored, and others")
    return _of_others(name, _of_one_config(path, runs))


def _folder_name(path: Path) -> str:
    """The name of a file or folder; of a folder `wandb`, which all are called, that around it."""
    return path.parent.name if path.name == "wandb" else path.name


def _refuse(path: Path, runs: Sequence[TrackerRun], words: str) -> None:
    raise BadInput(
        f"{path} holds {words}: {listed(runs)}; name the run you mean as {path}{SEPARATOR}NAME, by "
        "its name or identity"
    )


def _of_one_run(path: Path, runs: list[TrackerRun]) -> list[TrackerRun]:
    """The mirrored cells of one run of ours, each by its last attempt."""
    if len({run.config["run"] for run in runs}) > 1:
        _refuse(path, runs, "cells of several runs")
    last: dict[tuple[str, str | None], TrackerRun] = {}
    for run in sorted(runs, key=_attempt):
        last[run.config["stage"], run.config["cell"]] = run
    return list(last.values())


def _attempt(run: TrackerRun) -> int:
    attempt = run.config.get("attempt")
    return attempt if isinstance(attempt, int) else 0


def _of_one_config(path: Path, runs: list[TrackerRun]) -> list[TrackerRun]:
    """Runs that differ in nothing but their seeds: neither in settings nor in machine or code."""
    configs = [_settings(run) for run in runs]
    differing = sorted(k for k in set().union(*configs) if len({c.get(k) for c in configs}) > 1)
    if differing:
        _refuse(path, runs, f"runs that differ ({', '.join(differing[:4])})")
    seeds = [read_config(run).seed for run in runs if read_config(run).seed is not None]
    if len(set(map(str, seeds))) < len(seeds):
        _refuse(path, runs, "several runs of one seed")
    return runs


def _settings(run: TrackerRun) -> dict[str, str]:
    """All that the seeds of one arm must share."""
    machine = asdict(run.metadata)
    facts = {name: value for name, value in machine.items() if name not in ("versions", "cores")}
    facts |= {f"versions.{name}": value for name, value in run.metadata.versions.items()}
    config = {k: v for k, v in run.config.items() if k not in (*SEEDS, *PLACES)}
    return {k: str(v) for k, v in (facts | config).items() if v is not None}


def _of_ours(name: str, runs: list[TrackerRun]) -> ComparedRun:
    """A run of ours, from its mirror: its symbols as they were set, its commit, its versions."""
    config = runs[0].config
    symbols = {
        key: _as_symbol(value)
        for key, value in config.items()
        if key not in _ABOUT and not key.startswith("versions.")
    }
    versions = {
        key.removeprefix("versions."): str(value)
        for key, value in config.items()
        if key.startswith("versions.")
    }
    read = ReadConfig(symbols=symbols, read_as={}, rest={}, dtype=symbols.get("TRAIN_DTYPE"))
    run = _run(runs[0], read, versions, commit=config.get("commit"), dirty=config.get("dirty"))
    records = [r for each in runs for r in of_mirror(each, symbols)]
    return ComparedRun(
        name=name,
        run=run,
        records=tuple(records),
        origin=TrackerOrigin(
            place=runs[0].place,
            mirrored=True,
            read_as={},
            unsaid=("devices",),
            remarks=_remarks(runs),
        ),
    )


def _of_others(name: str, runs: list[TrackerRun]) -> ComparedRun:
    read, first = read_config(runs[0]), runs[0]
    records, names = [], dict(read.read_as)
    for each in runs:
        made, metric_names = of_history(each, read_config(each), runs=len(runs))
        records += made
        names |= metric_names
    run = _run(first, read, first.metadata.versions, commit=read.commit, dirty=None)
    unsaid = [symbol for symbol in _ASKED if symbol not in read.symbols]
    facts = {"devices": run.devices, "versions": run.versions, "seed": read.seed}
    unsaid += [fact for fact, value in facts.items() if value in (None, {})]
    if not any(record.metric == FINAL for record in records):
        unsaid.append("a validation loss")
    return ComparedRun(
        name=name,
        run=run,
        records=tuple(records),
        origin=TrackerOrigin(
            place=first.place,
            mirrored=False,
            read_as=names,
            unsaid=tuple(unsaid),
            keys=read.keys,
            unknown=frozenset(read.rest),
            remarks=_remarks(runs),
        ),
    )


def _remarks(runs: Sequence[TrackerRun]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{run.name}: {remark}" for run in runs for remark in run.remarks))


def _run(
    tracked: TrackerRun,
    read: ReadConfig,
    versions: dict[str, str],
    *,
    commit: str | None,
    dirty: bool | None,
) -> Run:
    """`run.json` of a tracker's run; a key that it does not say is null."""
    machine = tracked.metadata
    count = read.devices or (machine.gpu_count if machine.gpu_name else None)
    gpu = {"kind": "cuda", "name": machine.gpu_name, "memory_bytes": machine.gpu_memory_bytes}
    host: dict[str, Any] = {
        "devices": [{**gpu, "index": index} for index in range(count or 0)],
        "versions": versions,
    }
    host |= {k: v for k, v in (("os", machine.os), ("cores", machine.cores)) if v}
    compiled, batch = read.symbols.get("TRAIN_COMPILED"), read.symbols.get("TRAIN_BATCH", "")
    return Run(
        schema=SCHEMA,
        run=tracked.group or tracked.identity or tracked.name,
        study=tracked.project or tracked.source,
        config={**read.rest, **read.symbols},
        sessions=[Session(number=1, started="", commit=commit, dirty=dirty, host=host, command=[])],
        plugins=[],
        reasons={},
        batch=[int(batch)] if batch.isdecimal() else None,
        devices=[f"cuda:{index}" for index in range(count)] if count else None,
        compiled=compiled == "y" if compiled is not None else None,
        dtype=[read.dtype] if read.dtype else None,
        dataset=read.symbols.get("TRAIN_DATASET"),
        commit=commit,
        dirty=dirty,
        host=tracked.host,
        versions=versions or None,
        tracker_project=tracked.project,
        tracker_run=tracked.name,
    )


def _as_symbol(value: Any) -> str:
    return ("y" if value else "n") if isinstance(value, bool) else str(value)
