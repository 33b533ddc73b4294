"""`assay.load_records(path)`: the records of runs, as a list and as tables, and their answer."""

import glob
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from assay.errors import BadInput, unknown_name
from assay.python.tabular import TableResult, Tabular
from assay.records import run as runs
from assay.records.check_answer import PASS, Answer
from assay.records.schema import SEVERITY, Record

if TYPE_CHECKING:
    from assay.reports.chart import Chart
    from assay.reports.contents import Contents
    from assay.reports.report import Report
    from assay.reports.table import Table

_PLAIN = (
    "run", "stage", "cell", "subject", "metric", "value", "unit", "status", "reason", "cause",
    "samples", "level", "source", "host", "time", "session", "attempt", "fingerprint",
)  # fmt: skip
_SIZES = (
    "batch", "heads", "kv_heads", "query_length", "key_length", "head_dim", "dtype", "causal"
)  # fmt: skip


class Tables(dict[str, TableResult]):
    """The tables of a report by name; a wrong name is told with the nearest."""

    def __missing__(self, name: str) -> TableResult:
        raise BadInput(unknown_name("table", name, self))


class RunRecords(Tabular, list[Record]):
    """Records in a list, with the tables, figures and the answer of the run that they are.

    A part of it (a slice, `where`) is records alone: only a whole run has an answer.
    """

    def __init__(
        self,
        records: Iterable[Record] = (),
        *,
        folders: Sequence[Path] = (),
        plugins: Sequence[Path] = (),
    ) -> None:
        super().__init__(records)
        self.folders = tuple(folders)
        self._plugins = tuple(plugins)

    @overload
    def __getitem__(self, place: SupportsIndex) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> "RunRecords": ...
    def __getitem__(self, place: SupportsIndex | slice) -> "Record | RunRecords":
        chosen = super().__getitem__(place)
        return RunRecords(chosen) if isinstance(place, slice) else chosen

    def where(self, **fields: Any) -> "RunRecords":
        """The records whose fields have these values: where(metric="latency_ms", status="ok")."""
        known = {*_PLAIN, *_SIZES, "workload"}
        if unknown := sorted(set(fields) - known):
            raise BadInput(
                f"records have no field {unknown[0]!r}; there are {', '.join(sorted(known))}"
            )
        return RunRecords(
            record
            for record in self
            if all(_field(record, name) == value for name, value in fields.items())
        )

    @property
    def folder(self) -> Path:
        """The folder of the run; BadInput where these are records of several, or a part."""
        if len(self.folders) != 1:
            raise BadInput(
                f"these {len(self):,} records are of {len(self.folders) or 'a part of'} runs; "
                "one run has a report: assay.load_records(RUN)"
            )
        return self.folders[0]

    @cached_property
    def _contents(self) -> "Contents":
        from assay.reports.contents import read_contents
        from assay.reports.unchecked import withhold_unchecked

        return withhold_unchecked(read_contents(runs.RunFolder(path=self.folder)))

    @cached_property
    def report(self) -> "Report":
        """The report of the run, from its records, less speeds without a passed check."""
        from assay.reports.extensions import draw_charts
        from assay.reports.report import compose

        contents = self._contents
        charts, problems = draw_charts(contents.records, self._plugins)
        return compose(contents, charts=charts, problems=problems, plugin_folders=self._plugins)

    @property
    def tables(self) -> Tables:
        """The tables of the run's report by their names, each with to_pandas() and the others."""
        from assay.reports.table_files import named_tables

        return Tables({name: TableResult(t) for name, t in named_tables(self.report).items()})

    @property
    def passed(self) -> bool:
        """True where the run came to its end and everything in it holds."""
        return self.answer.word == PASS

    def write_report(self) -> Path:
        """Write the report into the run's folder, as the command line does; return its page."""
        from assay.reports.build import build

        built = build(runs.RunFolder(path=self.folder), plugin_folders=self._plugins)
        return built.html or built.markdown

    @cached_property
    def answer(self) -> Answer:
        """The lines that a reader can act on, and a word for programs."""
        from assay.reports.answer import answer

        contents = self._contents
        return answer(contents.records, run=contents.run, stages=contents.stages)

    def _answer(self) -> list[str]:
        from assay.reports.headlines import busy_machine

        if len(self.folders) != 1:
            return [_counts(self)]
        return [*self.answer.brief, *(f"! {line}" for line in busy_machine(self))]

    def _table(self) -> "Table":
        from assay.reports.table import tabulate, value_entry, workload_or_cell

        if len(self.folders) == 1 and (shown := (*self.report.results, self.report.outcomes)):
            return shown[0]
        return tabulate(
            "",
            self,
            {
                "stage": lambda record: record.stage,
                "workload": workload_or_cell,
                "subject": lambda record: record.subject,
                "metric": lambda record: record.metric,
                "value": value_entry,
                "unit": lambda record: record.unit,
                "status": lambda record: record.status,
            },
        )

    def _charts(self) -> "list[Chart]":
        return list(self.report.charts) if len(self.folders) == 1 else []

    def _columns(self) -> dict[str, list[Any]]:
        names = (*_PLAIN[:4], "workload", *_SIZES, *_PLAIN[4:])
        columns = {name: [_field(record, name) for record in self] for name in names}
        columns["data"] = [None if r.data is None else json.dumps(r.data) for r in self]
        return columns


def load_records(*paths: str | Path) -> RunRecords:
    """The records of each cell's last attempt: of a run, of every run of a study's folder or of a
    results folder, of several of these, or of all that a pattern such as results/*/2026* matches.

    They are a list of Records; `.to_pandas()`, `.to_polars()` and `.to_arrow()` are long tables of
    a row each, `.tables` the tables of a run's report.
    """
    if not paths:
        raise BadInput("load_records needs a path: load_records('results') reads every run there")
    matches = [match for path in paths for match in _matches(path)]
    below = (folder.path for match in matches for folder in runs.some_runs_below(match))
    folders = tuple(dict.fromkeys(path.resolve() for path in below))
    return RunRecords((r for path in folders for r in runs.load_records(path)), folders=folders)


def _matches(path: str | Path) -> list[Path]:
    text = str(path)
    if Path(text).exists() or not glob.has_magic(text):
        return [Path(text)]
    matches = sorted(path for path in map(Path, glob.glob(text)) if path.is_dir())
    if not matches:
        raise BadInput(f"no folder matches {text}; runs lie in results/<study>/<run_id>")
    return matches


def _field(record: Record, name: str) -> Any:
    if name == "workload":
        return record.workload.name if record.workload else None
    if name in _SIZES:
        return record.workload.spec.get(name) if record.workload else None
    return getattr(record, name)


def _counts(records: Sequence[Record]) -> str:
    from assay.reports.numerals import counted

    statuses = Counter(record.status for record in records)
    ends = ", ".join(f"{statuses[s]:,} {s}" for s in SEVERITY if statuses[s]) or "none"
    of_runs = counted(len({record.run for record in records}), "run")
    return f"{counted(len(records), 'record')} of {of_runs}: {ends}"
