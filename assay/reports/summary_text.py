"""summary_report.txt: what a person reads in one minute, without a browser."""

import textwrap
from collections.abc import Iterator, Sequence

from assay.reports.contents import Contents
from assay.reports.numerals import plain
from assay.reports.provenance import commit_text
from assay.reports.report import Report
from assay.reports.table import Table

_WIDTH = 100
_MOST_ROWS = 60
_TABLES = ("Speed", "Speed of layers", "Memory")
_LEFT_OUT = ("kernel", "its parts (forward)", "its parts (both)", "tokens/s", "K and V", "reserved")


def summary_text(report: Report, contents: Contents) -> str:
    """Machine, verdict, what ran, medians with ratios, memory, what failed, where the rest is."""
    lines = [
        report.title,
        "=" * min(len(report.title), _WIDTH),
        "",
        f"verdict: {report.verdict}",
        "",
    ]
    lines += [*_machine(contents), ""]
    lines += [*_listed("answers", report.answers), *_listed("problems", report.problems)]
    lines += [*_ran(report), ""]
    for table in report.results:
        if table.title in _TABLES:
            lines += [*text_table(table, left_out=_LEFT_OUT), ""]
    if report.outcomes.rows:
        lines += [*_ended(report.outcomes), ""]
    lines += ["all of it: report.html, report.md and the *_results.json files beside this one"]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def text_table(table: Table, *, left_out: Sequence[str] = ()) -> Iterator[str]:
    """A table in columns of plain text, without its small print."""
    kept = [i for i, column in enumerate(table.columns) if column not in left_out]
    rows = [[row[i].text for i in kept] for row in table.entries]
    header = [table.columns[i] for i in kept]
    shown = rows[:_MOST_ROWS]
    widths = [max(len(line[i]) for line in (header, *shown)) for i in range(len(kept))]
    numeric = [any(row[i].value is not None for row in table.entries) for i in kept]
    yield f"{table.title}:"
    for line in (header, *shown):
        cells = zip(line, widths, numeric, strict=True)
        yield "  " + "  ".join(t.rjust(w) if n else t.ljust(w) for t, w, n in cells)
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown):,} more rows in report.md"
    if table.note.startswith("Every workload has"):
        yield f"  {table.note.partition('.')[0]}."


def _machine(contents: Contents) -> Iterator[str]:
    run = contents.run
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


def _ran(report: Report) -> Iterator[str]:
    for row in report.stages.entries:
        stage, status, cells, seconds = (cell.text for cell in row[:4])
        yield f"stage {stage}: {status}, {cells} cells, {seconds} s"


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        for line in lines:
            yield from _wrapped(f"- {line}")
        yield ""


def _ended(outcomes: Table) -> Iterator[str]:
    yield "what did not end well:"
    rows = outcomes.entries
    for row in rows[:_MOST_ROWS]:
        status, stage, cell, subject, reason = (entry.text for entry in row)
        line = f"- {status}: {' '.join(filter(None, (stage, subject)))} at {cell}: {reason}"
        yield textwrap.shorten(line, 2 * _WIDTH)
    if len(rows) > _MOST_ROWS:
        yield f"  and {len(rows) - _MOST_ROWS:,} more in report.md"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")
