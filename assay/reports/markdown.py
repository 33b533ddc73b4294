"""The report as Markdown: the whole of it but for what needs a pointer."""

from collections.abc import Iterator, Sequence

from assay.reports.chart import plates
from assay.reports.report import Report
from assay.reports.table import Entry, Table

# Characters that would be read as markup; an underscore inside a word is not.
_MARKUP = {"\\": "\\\\", "|": "\\|", "<": "&lt;", "*": "\\*", "`": "\\`", "[": "\\[", "\n": " "}


def markdown(report: Report, *, figures: Sequence[str] = ()) -> str:
    """report.md; `figures` are the file stems of the plates that were printed."""
    lines = [f"# {escaped(report.title)}", "", f"**{escaped(report.verdict)}**", ""]
    lines += [escaped(" · ".join(report.facts)), ""]
    lines += [*(f"- {escaped(answer)}" for answer in report.answers), ""]
    lines += [*_problems(report), "## Failures and other outcomes", ""]
    if report.outcomes.rows:
        lines += [*table(report.outcomes, titled=False)]
    else:
        lines += ["Every outcome on record is ok.", ""]
    lines += ["## Stages", "", *table(report.stages, titled=False)]
    lines += _figures(report, figures)
    for heading, found in (
        ("Results", report.results),
        ("Paired ratios", report.paired),
        ("Provenance", report.provenance),
    ):
        if found:
            lines += [f"## {heading}", ""]
            lines += [line for each in found for line in table(each)]
    return "\n".join(lines).rstrip() + "\n"


def table(found: Table, *, titled: bool = True) -> Iterator[str]:
    """A table with its note and the reasons its numbers refer to, and an empty line after each."""
    if titled:
        yield from (f"### {escaped(found.title)}", "")
    rows, reasons = found.entries, found.reasons
    numeric = [any(row[i].value is not None for row in rows) for i in range(len(found.columns))]
    yield _line(escaped(column) for column in found.columns)
    yield _line("---:" if right else "---" for right in numeric)
    yield from (_line(_cell(cell, reasons) for cell in row) for row in rows)
    yield ""
    if found.note:
        yield from (escaped(found.note), "")
    for reason, index in reasons.items():
        yield from (f"({index}) {escaped(reason)}", "")


def escaped(text: str) -> str:
    """Text from outside, so that none of it is read as markup."""
    return "".join(_MARKUP.get(character, character) for character in text)


def _line(texts: Iterator[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(cell: Entry, reasons: dict[str, int]) -> str:
    text = escaped(cell.text)
    if cell.detail:
        text += f" ({escaped(cell.detail)})"
    return f"{text} ({reasons[cell.hint]})" if cell.needs_reason else text


def _problems(report: Report) -> list[str]:
    if not report.problems:
        return []
    return ["## Problems", "", *(f"- {escaped(problem)}" for problem in report.problems), ""]


def _figures(report: Report, printed: Sequence[str]) -> list[str]:
    if not report.charts:
        return []
    lines = ["## Figures", ""]
    for plate in plates(report.charts):
        picture = f"![{escaped(plate.title)}](figures/{plate.file_stem}.png)"
        absent = f"{escaped(plate.title)}: not printed"
        lines += [picture if plate.file_stem in printed else absent, ""]
        for chart in plate.charts:
            panel = f"{escaped(chart.panel)}: " if chart.panel else ""
            lines += [line for note in chart.notes for line in (panel + escaped(note), "")]
    return lines
