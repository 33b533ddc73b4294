"""The report as Markdown: all of it but what needs a pointer."""

from collections.abc import Iterable, Iterator, Sequence

from assay.records.foreign_text import visible
from assay.reports.chart import grouped
from assay.reports.report import Report
from assay.reports.table import Entry, Table

# Characters that would be read as markup; an underscore inside a word is not.
_MARKUP = {"\\": "\\\\", "|": "\\|", "<": "&lt;", "*": "\\*", "`": "\\`", "[": "\\[", "\n": " "}


def markdown(report: Report, *, figures: Sequence[str] = ()) -> str:
    """report.md; `figures` are the file stems of the figures that were printed."""
    lines = [f"# {escaped(report.title)}", "", f"**{escaped(report.verdict)}**", ""]
    lines += [escaped(" · ".join(report.facts)), ""]
    lines += [*(f"- {escaped(headline)}" for headline in report.headlines), ""]
    if report.problems:
        lines += ["## Problems", "", *(f"- {escaped(line)}" for line in report.problems), ""]
    lines += ["## Failures and other outcomes", ""]
    if report.outcomes.rows:
        lines += [*table_lines(report.outcomes, titled=False)]
    else:
        lines += ["All outcomes are ok.", ""]
    lines += ["## Stages", "", *table_lines(report.stages, titled=False)]
    lines += _figures(report, figures)
    sections = {
        "Results": report.results,
        "Paired ratios": report.ratios,
        "Provenance": report.provenance,
    }
    for heading, tables in sections.items():
        if tables:
            lines += [f"## {heading}", ""]
            lines += [line for table in tables for line in table_lines(table)]
    return "\n".join(lines).rstrip() + "\n"


def table_lines(table: Table, *, titled: bool = True) -> Iterator[str]:
    """A table with its note and the reasons its numbers refer to, and an empty line after each."""
    if titled:
        yield from (f"### {escaped(table.title)}", "")
    reasons = table.reasons
    if table.columns:
        yield _line(escaped(column) for column in table.columns)
        yield _line("---:" if numeric else "---" for numeric in table.numeric)
    yield from (_line(_entry(entry, reasons) for entry in row) for row in table.entries)
    yield ""
    if table.note:
        yield from (escaped(table.note), "")
    for reason, index in reasons.items():
        yield from (f"({index}) {escaped(reason)}", "")


def escaped(text: str) -> str:
    """Text from outside, so that none of it is read as markup."""
    return "".join(_MARKUP.get(character, character) for character in visible(text))


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _entry(entry: Entry, reasons: dict[str, int]) -> str:
    text = escaped(entry.text)
    if entry.detail:
        text += f" ({escaped(entry.detail)})"
    return f"{text} ({reasons[entry.hint]})" if entry.needs_reason else text


def _figures(report: Report, printed: Sequence[str]) -> list[str]:
    if not report.charts:
        return []
    lines = ["## Figures", ""]
    for group in grouped(report.charts):
        picture = f"![{escaped(group.title)}](figures/{group.file_stem}.png)"
        absent = f"{escaped(group.title)}: not printed"
        lines += [picture if group.file_stem in printed else absent, ""]
        for chart in group.charts:
            panel = f"{escaped(chart.panel)}: " if chart.panel else ""
            lines += [line for note in chart.notes for line in (panel + escaped(note), "")]
    return lines
