"""Start and resumption of a run: its folder, its run.json, and the lock that one process holds."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from assay import plugins
from assay.errors import BadInput
from assay.host import Host
from assay.records import run as runs
from assay.records.durable import make_folder
from assay.records.identity import current
from assay.records.log import Log
from assay.records.named_code import plugins_named_by, portable, tasks_named_by
from assay.records.run import RunFolder
from assay.records.schema import KEYS, SCHEMA, Record, Run, Session
from assay.studies import config_file, kconfig, plan, study
from assay.studies.execute import ActiveRun
from assay.studies.study import Study
from assay.studies.tracking import Tracking, tracking_of
from assay.train.processes import device_of

_TRAIN = "train"  # the stage that trains models


@contextmanager
def started(
    settings: Study, host: Host, results: Path, study_name: str, *, reuse: bool = False
) -> Iterator[ActiveRun]:
    """A new run of a study, held while it is worked on; with `reuse`, cells of earlier runs in
    `results` stand in for its own where their stages allow it."""
    stages = plan.make(settings, host)  # first: what cannot be planned must leave nothing behind
    tracking = tracking_of(settings, study_name)
    folder = runs.create(results, study_name)
    with folder.held():
        active = _begin(folder, settings, host, study_name, stages, tracking, sessions=[])
        yield replace(active, reuse=reuse)


@contextmanager
def resumed(path: Path, settings: Study, host: Host) -> Iterator[ActiveRun]:
    """An earlier run with its own study (`study_of`), held while it is worked on."""
    folder, run = runs.open_run(path)
    stages = plan.make(settings, host)
    tracking = tracking_of(settings, run.study)
    with folder.held():
        _, run = runs.open_run(path)  # again: another process may have added its session
        yield _begin(folder, settings, host, run.study, stages, tracking, sessions=run.sessions)


@contextmanager
def extended(path: Path, settings: Study, host: Host, results: Path) -> Iterator[ActiveRun]:
    """A new run with the cells of an earlier one that are also its own, by their fingerprints.

    They keep the sessions that measured them, with commit, host and command. Cells that stream, as
    trainings do, are made anew, for what they keep beside their records stays with the old run.
    """
    source, run = runs.open_run(path)
    stages = plan.make(settings, host)
    tracking = tracking_of(settings, run.study)
    kept = kept_by_extension(source, stages)  # first: what cannot be read must leave nothing behind
    folder = runs.create(results, run.study)
    with folder.held():
        for name, batches in kept.items():
            _copy(batches, folder, name)
        yield _begin(folder, settings, host, run.study, stages, tracking, sessions=run.sessions)


def kept_by_extension(
    source: RunFolder, stages: Sequence[plan.PlannedStage]
) -> dict[str, list[list[Record]]]:
    """Records that an extension takes over, of each stage that has some, by their cells."""
    kept = {stage.name: _unchanged(source, stage) for stage in stages if not stage.streams}
    return {name: batches for name, batches in kept.items() if batches}


def _unchanged(source: RunFolder, stage: plan.PlannedStage) -> list[list[Record]]:
    """The last attempts at cells that are planned with the same fingerprint, oldest first."""
    planned = {(cell.cell.name, cell.fingerprint) for cell in stage.cells}
    batches: dict[str, list[Record]] = {}
    for record in current(runs.stage_records(source, stage.name)):
        if (record.cell, record.fingerprint) in planned:
            batches.setdefault(record.cell, []).append(record)
    return sorted(batches.values(), key=lambda batch: batch[0].session)


def _copy(batches: list[list[Record]], target: RunFolder, stage: str) -> None:
    make_folder(target.stage(stage))
    with Log(target.log(stage)) as log:
        for batch in batches:
            log.append([msgspec.structs.replace(r, run=target.path.name) for r in batch])


def study_of(
    run: Run,
    changes: Mapping[str, str] = MappingProxyType({}),
    *,
    sets: Sequence[str] = (),
    plugin_folders: Sequence[Path] = (),
    trust: bool = False,
) -> Study:
    """The study that a run was started with, but for `changes` of symbols and `sets` of --set.

    Code that the run names is foreign: it must be among `plugin_folders`, which whoever asks has
    given, or be trusted as a whole.
    """
    allowed = plugins.check_folders(plugin_folders)
    named = plugins_named_by(run)
    foreign = [path for path in named if path.resolve() not in allowed]
    if unknown := [] if trust else [str(p) for p in (*foreign, *tasks_named_by(run))]:
        raise BadInput(
            f"run {run.run} names code that is not part of assay: {', '.join(unknown)}. It is not "
            "loaded unless you say so: give it with --plugins, or all of it with --trust-plugins"
        )
    known = kconfig.load(None).config
    if set(known) != set(run.config):
        unknown = ", ".join(sorted(set(known) ^ set(run.config)))
        raise BadInput(
            f"run {run.run} was started with another menu of settings ({unknown}); "
            "start a new run with `assay study run`"
        )
    for symbol, text in run.config.items():
        kind = config_file.form_of(known[symbol])
        if not (config_file.is_value(text) and config_file.form_of(text) == kind):
            raise BadInput(
                f"run {run.run} has {symbol}={text[:80]!r} in its run.json; wanted a {kind} as a "
                f".config writes it, such as {known[symbol]}; restore the file"
            )
    folders = [path for path in named if path.suffix != ".py"] if trust else []
    if sets:
        return kconfig.changed({**run.config, **changes}, sets, [*allowed, *folders])
    return study.build({**run.config, **changes}, plugin_folders=[*allowed, *folders])


def latest(results: Path, settings: Study) -> Path | None:
    """The newest run of a study with this very configuration; None where there is none.

    A run that cannot be read, such as one of an older schema, is not one to go on with.
    """
    newest = None
    for file in sorted((results / settings.study).glob(f"*/{runs.RUN_FILE}")):
        with suppress(BadInput):
            if runs.open_run(file.parent)[1].config == settings.config:
                newest = file.parent
    return newest


def _begin(
    folder: RunFolder,
    settings: Study,
    host: Host,
    name: str,
    stages: list[plan.PlannedStage],
    tracking: Tracking,
    sessions: Sequence[Session],
) -> ActiveRun:
    session = Session(
        number=len(sessions) + 1,
        started=runs.now(),
        commit=host.commit,
        dirty=host.dirty,
        host=host.describe(),
        command=["assay", *(a.encode(errors="backslashreplace").decode() for a in sys.argv[1:])],
    )
    run = _run(folder, settings, host, name, tracking, [*sessions, session])
    runs.save(folder, run)
    return ActiveRun(
        folder=folder,
        run=run.run,
        session=session.number,
        study=settings,
        stages=tuple(stages),
        host=host,
        tracking=tracking,
    )


def _run(
    folder: RunFolder,
    settings: Study,
    host: Host,
    name: str,
    tracking: Tracking,
    sessions: list[Session],
) -> Run:
    keys = _keys(settings, host) | tracking.keys(folder.path.name)
    return Run(
        schema=SCHEMA,
        run=folder.path.name,
        study=name,
        config=settings.config,
        sessions=sessions,
        plugins=[portable(path) for path in settings.plugin_folders if path.is_dir()],
        reasons={key: _why_null(key, settings, host) for key in KEYS if keys.get(key) is None},
        **keys,
    )


def _keys(settings: Study, host: Host) -> dict[str, Any]:
    """Those of the fixed keys that a measuring study has, and one that trains."""
    own: dict[str, Any] = {"batch": list(settings.batches), "dtype": list(settings.dtypes)}
    if _TRAIN in settings.stages:
        micro = settings.train_micro_batch
        own = {
            "budget": float(settings.train_steps * settings.train_batch * settings.train_length),
            "batch": [settings.train_batch],
            "accumulation": settings.train_batch // micro if micro else None,
            "compiled": settings.train_compiled,
            "dtype": [settings.train_dtype],
            "dataset": settings.train_dataset,
        }
    return {
        **own,
        "devices": _devices(settings, plan.on_device(settings, host).device),
        "seed": settings.seed,
        "commit": host.commit,
        "dirty": host.dirty,
        "host": host.fingerprint,
        "versions": host.versions,
    }


def _devices(settings: Study, device: str) -> list[str]:
    """All that a run computes on: a GPU for each process, or the one CPU for all of them."""
    count = settings.train_processes if _TRAIN in settings.stages else 1
    return list(dict.fromkeys(device_of(device, rank) for rank in range(count)))


def _why_null(key: str, settings: Study, host: Host) -> str:
    if key in ("commit", "dirty"):
        return host.unknown.get(key) or host.unknown["commit"]
    if key.startswith("tracker"):
        return "no tracker is mirrored to"
    if _TRAIN in settings.stages:
        return "known when a model is trained: see the data of its final_val_loss"
    return "no stage of this study trains a model"


def frozen(settings: Study, name: str) -> str:
    """The text of a defconfig that describes `asked` under the name `name`."""
    config = {**settings.config, "STUDY": config_file.quote(study.folder_name(name))}
    return kconfig.minimal(replace(settings, config=config))
