"""The folder of a run: the paths of its parts, reading and writing them.

<results>/<study>/<run_id>/run.json
                           stages/<stage>/{metrics.jsonl, DONE, stdout.log, stderr.log}
                                          cells/<digest of the cell's name>/
                           report.html report.md figures/

An archived run, such as those in evidence/, has `metrics.jsonl.gz` in place of its stages: the
lines of all their logs.
"""

import gzip
import secrets
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from assay.errors import BadInput, CannotRunHere, did_you_mean
from assay.records import log
from assay.records.durable import (
    explained,
    is_locked,
    make_folder,
    only_process,
    require_utf8,
    write_atomically,
)
from assay.records.identity import current, digest
from assay.records.schema import SCHEMA, Measurement, Record, Run, Stamp

RUN_FILE = "run.json"
LOG_FILE = "metrics.jsonl"
ARCHIVE_FILE = "metrics.jsonl.gz"

T = TypeVar("T")


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """`DONE`: the end of a stage. Written last; absent while anything is left to do."""

    status: str  # ok, failed, or skipped where nothing was run
    reason: str | None
    cells: dict[str, str]  # cell name -> fingerprint
    counts: dict[str, int]  # cells by status
    session: int
    time: str


class _Numbered(msgspec.Struct):
    number: int


class _Sessions(msgspec.Struct):
    """That of `run.json` which says how often the run was started."""

    sessions: Annotated[list[_Numbered], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """The paths of one run."""

    path: Path

    @property
    def run_file(self) -> Path:
        return self.path / RUN_FILE

    def stage(self, name: str) -> Path:
        return self.path / "stages" / name

    def log(self, stage: str) -> Path:
        return self.stage(stage) / LOG_FILE

    def cell(self, stage: str, name: str) -> Path:
        """The folder of a cell that keeps something of its own."""
        return self.stage(stage) / "cells" / digest(name)

    def done_file(self, stage: str) -> Path:
        return self.stage(stage) / "DONE"

    @property
    def archive(self) -> Path:
        return self.path / ARCHIVE_FILE

    def logs(self) -> list[Path]:
        return sorted(self.path.glob(f"stages/*/{LOG_FILE}"))

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def is_held(self) -> bool:
        """True while a process runs this run."""
        return is_locked(self.lock)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other process from running this run meanwhile."""
        require_utf8(self.path)
        with only_process(self.lock) as mine:
            if not mine:
                holder = self.lock.read_text().strip() or "unknown"
                raise CannotRunHere(
                    f"{self.path} is being run by process {holder}; wait for it, stop it, or start "
                    "a new run with `assay study run`"
                )
            yield


def now() -> str:
    """The time as records write it: UTC, ISO 8601, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stamped(measurements: Iterable[Measurement], stamp: Stamp, *, host: str) -> list[Record]:
    """Measurements as records, made now on the machine with the fingerprint `host`."""
    common = {**msgspec.structs.asdict(stamp), "schema": SCHEMA, "host": host, "time": now()}
    return [Record(**msgspec.structs.asdict(m), **common) for m in measurements]


def create(results: Path, study: str) -> RunFolder:
    """A new, empty run folder; its name begins with the UTC time, so names sort by age.

    A name that is taken, as two runs of one millisecond may draw, is never shared.
    """
    parent = make_folder(require_utf8(results) / study)
    while True:
        moment = datetime.now(UTC)
        milliseconds = moment.microsecond // 1000
        name = f"{moment:%Y%m%dT%H%M%S}.{milliseconds:03}Z-{secrets.token_hex(2)}"
        with explained(parent), suppress(FileExistsError):
            (parent / name).mkdir()
            return RunFolder(path=parent / name)


def save(folder: RunFolder, run: Run) -> None:
    """Replace `run.json`."""
    content = msgspec.json.format(msgspec.json.encode(run), indent=2)
    write_atomically(folder.run_file, content + b"\n")


def open_run(path: Path) -> tuple[RunFolder, Run]:
    """The run in the folder `path`."""
    folder = RunFolder(path=Path(path))
    if not folder.run_file.is_file():
        raise BadInput(
            f"{path} is not the folder of a run: it holds no {RUN_FILE}. {_nearest(folder.path)}"
            "Runs lie in results/<study>/<run_id>"
        )
    return folder, _decode(folder.run_file, Run)


def _nearest(path: Path) -> str:
    """A question about the run that may be meant: the newest of a study, or of a name like this."""
    if inside := sorted(file.parent for file in path.glob(f"*/{RUN_FILE}")):
        return f"did you mean {inside[-1]}? "
    beside = sorted(str(file.parent) for file in path.parent.glob(f"*/{RUN_FILE}"))
    hint = did_you_mean(str(path), beside)
    return f"{hint} " if hint else ""


def last_session(folder: RunFolder) -> int:
    """The number of the run's last start."""
    return _decode(folder.run_file, _Sessions).sessions[-1].number


def runs_below(results: Path) -> list[RunFolder]:
    """Every run in a results folder, by study and age; `results` may itself be a run, or the folder
    of a study's runs."""
    if (results / RUN_FILE).is_file():
        return [RunFolder(path=results)]
    if not results.is_dir():
        raise BadInput(
            f"there is no results folder {results}; run a study first, or give --out DIR"
        )
    files = (*results.glob(f"*/{RUN_FILE}"), *results.glob(f"*/*/{RUN_FILE}"))
    return [RunFolder(path=file.parent) for file in sorted(files)]


def some_runs_below(results: Path) -> list[RunFolder]:
    """The same; BadInput where there is none."""
    folders = runs_below(results)
    if not folders:
        raise BadInput(
            f"there is no run in {results}: it holds no {RUN_FILE}, nor does any folder in it; "
            "runs lie in results/<study>/<run_id>"
        )
    return folders


def newest_first(results: Path) -> list[RunFolder]:
    """Every run of every study in a results folder, if it is there, by the times in their names."""
    folders = (file.parent for file in results.glob(f"*/*/{RUN_FILE}"))
    return [RunFolder(path=path) for path in sorted(folders, key=lambda p: p.name, reverse=True)]


def newest_run(results: Path) -> Path:
    """The run that was started last below a results folder."""
    folders = runs_below(results)
    if not folders:
        raise BadInput(f"there is no run below {results}; start one with `assay study run`")
    return max((folder.path for folder in folders), key=lambda path: path.name)


def read_done(folder: RunFolder, stage: str) -> Done | None:
    """The end of a stage; None while it has not ended."""
    file = folder.done_file(stage)
    return _decode(file, Done) if file.is_file() else None


def write_done(folder: RunFolder, stage: str, done: Done) -> None:
    """Mark a stage as ended."""
    content = msgspec.json.format(msgspec.json.encode(done), indent=2)
    write_atomically(folder.done_file(stage), content + b"\n")


def stage_records(folder: RunFolder, stage: str) -> list[Record]:
    """Every record of a stage, all attempts; empty where it never ran."""
    file = folder.log(stage)
    return read_log(file).records if file.is_file() else []


def read_log(file: Path) -> log.LogContent:
    """All complete batches of a stage's log; BadInput where one is of another stage."""
    content = log.read(file)
    for number, record in enumerate(content.records, 1):
        if record.stage != file.parent.name:
            raise BadInput(
                f"{file}:{number}: a record of stage {record.stage[:80]!r} in the log of "
                f"{file.parent.name}; the log was changed from outside: restore it"
            )
    return content


def load_records(path: str | Path) -> list[Record]:
    """The records of a run, or of every run below a results folder: each cell's last attempt."""
    return current([r for folder in some_runs_below(Path(path)) for r in _all_attempts(folder)])


def _all_attempts(folder: RunFolder) -> list[Record]:
    if folder.archive.is_file():
        return archived_records(folder)
    return [record for file in folder.logs() for record in read_log(file).records]


def archived_records(folder: RunFolder) -> list[Record]:
    """Every record of an archived run, all attempts."""
    try:
        lines = gzip.decompress(folder.archive.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"cannot read {folder.archive}: {error}") from error
    return log.records_in(lines, folder.archive)


def _decode(file: Path, kind: type[T]) -> T:
    try:
        value = msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"cannot read {file}: {error}; restore it from a copy") from error
    schema = getattr(value, "schema", SCHEMA)
    if schema != SCHEMA:
        raise BadInput(
            f"{file} has schema {schema}; this assay reads {SCHEMA}. "
            "Read it with the assay that wrote it"
        )
    return value
