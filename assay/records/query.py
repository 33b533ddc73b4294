"""SQL over the records of many runs, through DuckDB.

Tables: `records` (each cell's last attempt), `attempts` (every record), `runs` (every run.json).
The JSONL is canonical. A query reads it directly; `index` keeps a Parquet copy of each log beside
the results, which is used while the log has not changed and may be deleted at any time.
"""

import glob
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from assay.errors import BadInput, CannotRunHere
from assay.installation import how_to_add
from assay.records import confined, log
from assay.records.durable import explained, require_utf8
from assay.records.identity import digest
from assay.records.run import runs_below
from assay.records.schema import SCHEMA, Record, Run, WorkloadIdentity

INDEX_FOLDER = ".index"

_SQL_TYPES = {
    str: "VARCHAR",
    int: "BIGINT",
    float: "DOUBLE",
    bool: "BOOLEAN",
    list[float]: "DOUBLE[]",
    list[int]: "BIGINT[]",
    list[str]: "VARCHAR[]",
    WorkloadIdentity: "STRUCT(name VARCHAR, spec JSON, content VARCHAR)",
}
# Written only where a cell was run more than once; escaped quotes keep it out of any string.
_RERUN_KEY = b'"attempt":'
_SUPERSEDED = "attempt < max(attempt) OVER (PARTITION BY run, stage, cell)"


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """The rows of a query, and what of the logs was left out."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    torn: dict[Path, int]  # bytes after a log's last complete batch


class Records:
    """The records of every run below a results folder, open for queries."""

    def __init__(self, results: Path) -> None:
        self._folders = runs_below(results)
        if not self._folders:
            raise BadInput(f"there is no run below {results}; run a study first, or give --out DIR")
        if archived := [folder.path for folder in self._folders if folder.archive.is_file()]:
            raise BadInput(
                f"{archived[0]} is archived, and queries read the logs of runs alone; its records "
                "are read with assay.load_records, in Python"
            )
        self._index = results / INDEX_FOLDER
        self._logs = [path for folder in self._folders for path in folder.logs()]
        for path in (*self._logs, *(folder.run_file for folder in self._folders)):
            require_utf8(path)

    def query(self, sql: str, *, unsafe: bool = False) -> QueryResult:
        """The answer to one SELECT over `records`, `attempts` and `runs`.

        It reads the records' files and nothing else. Where it is `unsafe`, it may be any SQL, and
        do whatever the user may.
        """
        torn = {path: count for path in self._logs if (count := _torn_bytes(path))}
        with _connected() as connection, ExitStack() as stack:
            read, sources = self._sources(stack)
            run_files = [folder.run_file for folder in self._folders]
            with self._explained(), confined.refusals_explained():
                _define_views(connection, sources, run_files)
                if not unsafe:
                    confined.require_select(connection, sql)
                    confined.confine(connection, _names([*read, *run_files]))
                cursor = connection.execute(sql)
                if cursor is None:
                    raise BadInput("the query cannot be answered: it holds no statement")
                columns = [column[0] for column in cursor.description or ()]
                return QueryResult(columns=columns, rows=cursor.fetchall(), torn=torn)

    def index(self) -> int:
        """Copy every log that has changed into the index; returns their number."""
        stale = [path for path in self._logs if not self._copy(path).is_file()]
        with explained(self._index):
            self._index.mkdir(exist_ok=True)
            for path in stale:
                self._write_copy(path)
            for old in set(self._index.glob("*.parquet")) - {
                self._copy(path) for path in self._logs
            }:
                old.unlink(missing_ok=True)
        return len(stale)

    def _copy(self, path: Path) -> Path:
        """The path of a log's copy. Another state of the log has another name."""
        state = path.stat()
        columns = list(_columns(Record))
        version = [str(path.resolve()), state.st_size, state.st_mtime_ns, SCHEMA, columns]
        return self._index / f"{digest(version)}.parquet"

    def _sources(self, stack: ExitStack) -> tuple[list[Path], list[str]]:
        """The files that hold every log once, its copy where that is current, else its JSON, and
        SELECTs of them.

        Each log is looked at once: another process may finish a copy at any moment, and a log that
        is looked at twice may then be left out, or read from both.
        """
        copies: list[Path] = []
        plain: list[Path] = []
        rerun: list[Path] = []
        for path in self._logs:
            copy = self._copy(path)
            if copy.is_file():
                copies.append(copy)
            else:
                whole = stack.enter_context(_complete(path))
                (rerun if _has_reruns(path) else plain).append(whole)
        selects = [f"SELECT * FROM read_parquet({_files(copies)})"] if copies else []
        selects += [_json_records(plain, reruns=False)] if plain else []
        selects += [_json_records([path], reruns=True) for path in rerun]
        return [*copies, *plain, *rerun], selects

    def _write_copy(self, path: Path) -> None:
        target = self._copy(path)
        temporary = target.with_suffix(f".{os.getpid()}")
        try:
            with _connected() as connection, _complete(path) as whole, self._explained():
                records = _json_records([whole], reruns=_has_reruns(path))
                connection.execute(f"COPY ({records}) TO {_text(temporary)} (FORMAT parquet)")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name a damaged log with its line; any other error is the index's or the query's."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            for path in self._logs:
                log.read(path)
            damaged = str(self._index) in str(error)
            advice = f" (the index is damaged: delete {self._index})" if damaged else ""
            raise BadInput(f"the query cannot be answered{advice}: {error}") from error


def _define_views(connection: Any, sources: Sequence[str], run_files: Sequence[Path]) -> None:
    empty = (
        f"SELECT {', '.join(f'NULL::{kind} AS {name}' for name, kind in _columns(Record).items())}"
    )
    everything = " UNION ALL BY NAME ".join(sources) or f"{empty}, false AS superseded WHERE false"
    connection.execute(f"CREATE VIEW every_record AS {everything}")
    connection.execute("CREATE VIEW attempts AS SELECT * EXCLUDE (superseded) FROM every_record")
    connection.execute(
        "CREATE VIEW records AS "
        "SELECT * EXCLUDE (superseded) FROM every_record WHERE NOT superseded"
    )
    connection.execute(
        f"CREATE VIEW runs AS SELECT * FROM read_json({_files(run_files)}, "
        "format = 'unstructured', "
        f"columns = {_column_list(Run)})"
    )


def _json_records(paths: Sequence[Path], *, reruns: bool) -> str:
    """A SELECT of all records of some logs, with left-out defaults filled in."""
    defaults = {
        field.name: field.default
        for field in msgspec.structs.fields(Record)
        if isinstance(field.default, str | int)
    }
    filled = ", ".join(
        f"coalesce({name}, {_text(value)}) AS {name}" for name, value in defaults.items()
    )
    # A line that is JSON but no record must not pass as a row of nulls.
    sound = f"schema = {SCHEMA} AND metric IS NOT NULL"
    is_record = f"CASE WHEN {sound} THEN true ELSE error('not a record') END"
    rows = (
        f"SELECT * REPLACE ({filled}) FROM read_json({_files(paths)}, "
        f"format = 'newline_delimited', columns = {_column_list(Record)}) WHERE {is_record}"
    )
    return f"SELECT *, {_SUPERSEDED if reruns else 'false'} AS superseded FROM ({rows})"


def _columns(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The SQL type of each field; what SQL has no plain type for stays JSON."""
    return {field.name: _sql_type(field.type) for field in msgspec.structs.fields(struct)}


def _sql_type(kind: Any) -> str:
    for candidate in (kind, *getattr(kind, "__args__", ())):
        if isinstance(candidate, str):  # one of the words of a Literal
            return "VARCHAR"
        if candidate in _SQL_TYPES:
            return _SQL_TYPES[candidate]
        if getattr(candidate, "__origin__", None) is not None and kind is not candidate:
            return _sql_type(candidate)
    return "JSON"


def _column_list(struct: type[msgspec.Struct]) -> str:
    return "{" + ", ".join(f"{name}: '{kind}'" for name, kind in _columns(struct).items()) + "}"


def _text(value: object) -> str:
    """A value as SQL writes it."""
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _files(paths: Sequence[Path]) -> str:
    """Paths as SQL writes them, each to be read as that file alone and not as a pattern."""
    return "[" + ", ".join(_text(glob.escape(str(path))) for path in paths) + "]"


def _names(paths: Sequence[Path]) -> list[str]:
    """Every form in which a query names these files, as SQL writes it."""
    forms = (form for path in paths for form in (str(path), glob.escape(str(path))))
    return [_text(form) for form in dict.fromkeys(forms)]


@contextmanager
def _complete(path: Path) -> Iterator[Path]:
    """A log without a torn tail: the file itself, or a copy of its complete part."""
    if not _torn_bytes(path):
        yield path
        return
    with TemporaryDirectory(prefix="assay-query-") as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(log.complete_content(path)[0])
        yield copy


def _torn_bytes(path: Path) -> int:
    return path.stat().st_size - log.complete_bytes(path)


def _has_reruns(path: Path) -> bool:
    """True where a cell of a log has more than one attempt; never in a run's first session."""
    last = log.last_record(path)
    if last is None or last.session == 1:
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(_RERUN_KEY) >= 0


@contextmanager
def _connected() -> Iterator[Any]:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise CannotRunHere(f"queries need DuckDB: {how_to_add('report')}") from error
    connection = duckdb.connect(config={"preserve_insertion_order": "false", **confined.CONFIG})
    try:
        yield connection
    finally:
        connection.close()
