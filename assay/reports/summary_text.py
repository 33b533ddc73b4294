"""summary_report.txt: a report to read in one minute, without a browser."""

import textwrap
from collections.abc import Iterator, Sequence

from assay.records.schema import Run
from assay.reports.numerals import plain
from assay.reports.report import Report
from assay.reports.run_tables import commit_text
from assay.reports.table import Table

_WIDTH = 100
_MOST_ROWS = 60
_TABLES = ("Speed", "Speed of layers", "Memory", "Growth with length", "Recommendations")
_LEFT_OUT = (
    "kernel",
    "parts (forward)",
    "parts (both)",
    "batches/s",
    "tokens/s",
    "K and V",
    "reserved",
)


def summary_text(report: Report, run: Run) -> str:
    """Verdict, machine, headlines, stages, speed, memory, what failed, and where the rest is."""
    underline = "=" * min(len(report.title), _WIDTH)
    lines = [report.title, underline, "", f"verdict: {report.verdict}", "", *_machine(run), ""]
    lines += [*_listed("comparisons", report.headlines), *_listed("problems", report.problems)]
    lines += [*_stages(report.stages), ""]
    for table in report.results:
        if table.title in _TABLES:
            lines += [*_table(table.without(*_LEFT_OUT)), ""]
    if report.outcomes.rows:
        lines += [*_outcomes(report.outcomes), ""]
    lines += ["full results: report.html, report.md and the *_results.json files in this folder"]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _table(table: Table) -> Iterator[str]:
    """A table in columns of plain text, without its small print."""
    rows = [[entry.text for entry in row] for row in table.entries]
    shown = [list(table.columns), *rows[:_MOST_ROWS]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    yield f"{table.title}:"
    for line in shown:
        cells = zip(line, widths, table.numeric, strict=True)
        yield "  " + "  ".join(t.rjust(w) if n else t.ljust(w) for t, w, n in cells)
    if len(rows) > _MOST_ROWS:
        yield f"  and {len(rows) - _MOST_ROWS:,} more rows in report.md"
    if table.note.startswith("Every workload has"):
        yield f"  {table.note.partition('.')[0]}."


def _machine(run: Run) -> Iterator[str]:
    host = run.sessions[-1].host if run.sessions else {}
    names = [plain(device.get("name")) for device in host.get("devices") or []]
    versions = ", ".join(f"{name} {value}" for name, value in sorted((run.versions or {}).items()))
    facts = {
        "machine": f"{', '.join(names) or 'unknown'} ({run.host or 'fingerprint unknown'})",
        "software": versions or "unknown",
        "commit": commit_text(run.commit, run.dirty),
        "command": " ".join(run.sessions[-1].command) if run.sessions else "never started",
    }
    for name, value in facts.items():
        yield from _wrapped(f"{name}: {value}")


def _stages(stages: Table) -> Iterator[str]:
    for row in stages.entries:
        stage, status, cells, seconds = (entry.text for entry in row[:4])
        yield f"stage {stage}: {status}, {cells} cells, {seconds} s"


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        for line in lines:
            yield from _wrapped(f"- {line}")
        yield ""


def _outcomes(outcomes: Table) -> Iterator[str]:
    yield "failures and other outcomes:"
    rows = outcomes.entries
    for row in rows[:_MOST_ROWS]:
        status, stage, cell, subject, reason = (entry.text for entry in row)
        line = f"- {status}: {' '.join(filter(None, (stage, subject)))} at {cell}: {reason}"
        yield textwrap.shorten(line, 2 * _WIDTH)
    if len(rows) > _MOST_ROWS:
        yield f"  and {len(rows) - _MOST_ROWS:,} more in report.md"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")
