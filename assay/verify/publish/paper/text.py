"""The words of a paper: facts of the manifest and the report, nothing that is not recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.reports.chart import grouped
from assay.reports.numerals import DASH, plain
from assay.reports.report import Report
from assay.reports.table import Entry, Table
from assay.verify.publish.manifest import PublishedRun
from assay.verify.publish.paper.latex import escape, remarks, tabulars

_PREAMBLE = r"""\documentclass{article}
\usepackage{iftex}
\ifPDFTeX
  \usepackage[T1]{fontenc}
  \usepackage{textcomp}
\fi
\usepackage{array}
\usepackage{graphicx}
\usepackage[margin=25mm]{geometry}
% A letter that the fonts of this paper may lack, by its number in Unicode.
\newcommand{\codepoint}[1]{\texttt{U+#1}}
% A table as wide as it is, or as the page where it is wider.
\newcommand{\fitted}[1]{\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{#1}}
"""
# The names of other tables have no hyphen, so these two are never taken.
SETUP, ORIGIN = "paper-setup", "paper-origin"
_RUN, _TOOL = "run", "assay"  # keys of references.bib
_SETUP = ("study", "devices", "dtype", "batch", "accumulation", "compiled", "dataset", "seed")
_ORIGIN = (
    "run", "commit", "dirty", "versions", "budget", "batch", "accumulation", "compiled", "dataset",
    "seed", "tracker_project", "tracker_run",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DrawnFigure:
    """A figure of the folder, by its file's name without .png."""

    stem: str
    caption: str


@dataclass(frozen=True, kw_only=True)
class Paper:
    """All that the words are made of."""

    report: Report
    run: PublishedRun
    digest: str
    tables: Mapping[str, Table]
    figures: tuple[DrawnFigure, ...]


def figures(report: Report, printed: set[str]) -> tuple[DrawnFigure, ...]:
    """The figures that were printed, each with its title and the notes of its panels."""
    drawn = []
    for group in grouped(report.charts):
        notes = dict.fromkeys(
            f"{chart.panel}: {note}" if chart.panel else note
            for chart in group.charts
            for note in chart.notes
        )
        caption = ". ".join([group.title, *(note.rstrip(".") for note in notes)])
        if group.file_stem in printed:
            drawn.append(DrawnFigure(stem=group.file_stem, caption=f"{caption}."))
    return tuple(drawn)


def table_file(stem: str, table: Table) -> str:
    """A table with caption and label, in as many floats as it needs pages."""
    parts, lines = tabulars(table), []
    for number, part in enumerate(parts, start=1):
        further = f", part {number} of {len(parts)}" if len(parts) > 1 else ""
        label = f"tab:{stem}" if number == 1 else f"tab:{stem}-{number}"
        lines += [
            r"\begin{table}[!htbp]",
            r"\centering\footnotesize",
            rf"\caption{{{escape(table.title)}{further}.}}\label{{{label}}}",
            r"\fitted{%",
            *part,
            "}",
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def setup(paper: Paper) -> str:
    rows = [("hardware", _hardware(paper.run)), *_facts(paper.run, _SETUP)]
    return table_file(SETUP, _pairs("Setup", rows))


def origin(paper: Paper) -> str:
    rows = [
        *_facts(paper.run, _ORIGIN),
        ("hardware", _hardware(paper.run)),
        ("digest of the bundle", Entry(text=paper.digest)),
    ]
    return table_file(ORIGIN, _pairs("Origin of all numbers", rows))


def main(paper: Paper) -> str:
    """main.tex."""
    report = paper.report
    lines = [
        _PREAMBLE,
        rf"\title{{{escape(report.title)}}}",
        r"\date{}",
        r"\begin{document}",
        r"\maketitle",
        r"\begin{abstract}",
        *_abstract(paper),
        r"\end{abstract}",
        *_section(
            "Setup", SETUP, [rf"Table~\ref{{tab:{SETUP}}} gives the setup~\cite{{{_TOOL}}}."]
        ),
        rf"\input{{tables/{SETUP}}}",
        *(line for stem, table in paper.tables.items() for line in _result(stem, table)),
        *_figures(paper.figures),
        r"\appendix",
        *_appendix(paper),
        r"\bibliographystyle{plain}",
        r"\bibliography{references}",
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def bibliography(paper: Paper) -> str:
    """references.bib: the run, and the program that measured it at its commit."""
    facts = paper.run.facts
    commit = escape(str(facts["commit"] or "not recorded"))
    return (
        f"@misc{{{_RUN},\n"
        f"  title = {{{{Records of {escape(paper.report.title)}}}}},\n"
        f"  note = {{Bundle with SHA-256 {paper.digest}}},\n}}\n\n"
        f"@misc{{{_TOOL},\n"
        "  title = {{assay: a workbench for attention}},\n"
        f"  note = {{Commit {commit}}},\n}}\n"
    )


def _abstract(paper: Paper) -> list[str]:
    report, run = paper.report, paper.run
    study, hardware = (escape(text) for text in (str(run.facts["study"]), _hardware(run).text))
    return [
        f"The study {study} was run on {hardware}~\\cite{{{_RUN}}}.",
        f"Its verdict: {escape(report.verdict)}.",
        *(f"{escape(line)}." for line in report.headlines),
        f"{escape('; '.join(report.facts))}.",
    ]


def _result(stem: str, table: Table) -> list[str]:
    reference = (
        rf"Table~\ref{{tab:{stem}}}; all digits are in \texttt{{data/{escape(stem)}.csv}}, the "
        r"records in \texttt{data/records.csv}."
    )
    texts = [reference, *remarks(table)]
    return [*_section(escape(table.title), stem, texts), rf"\input{{tables/{stem}}}"]


def _figures(drawn: Iterable[DrawnFigure]) -> list[str]:
    floats: list[str] = []
    names = []
    for figure in drawn:
        names.append(rf"\ref{{fig:{figure.stem}}}")
        floats += [
            r"\begin{figure}[!htbp]",
            r"\centering",
            rf"\includegraphics[width=\linewidth]{{figures/{figure.stem}.png}}",
            rf"\caption{{{escape(figure.caption)}}}\label{{fig:{figure.stem}}}",
            r"\end{figure}",
        ]
    if not names:
        return []
    reference = f"Figures~{', '.join(names)} are drawn from the same records."
    return [*_section("Figures", "paper-figures", [reference]), *floats]


def _appendix(paper: Paper) -> list[str]:
    reference = (
        rf"Table~\ref{{tab:{ORIGIN}}} says where all numbers come from. The records lie in the "
        rf"bundle with the digest given there~\cite{{{_RUN}}}; "
        r"\texttt{assay verify BUNDLE -{}-digest DIGEST} compares every byte of it with the "
        "digest, makes its report again, and judges the runs again."
    )
    return [*_section("Reproducibility", ORIGIN, [reference]), rf"\input{{tables/{ORIGIN}}}"]


def _section(title: str, stem: str, paragraphs: Iterable[str]) -> list[str]:
    return ["", rf"\section{{{title}}}\label{{sec:{stem}}}", "\n\n".join(paragraphs)]


def _hardware(run: PublishedRun) -> Entry:
    names = list(dict.fromkeys(run.hardware))
    return Entry(text=", ".join(names) or DASH, hint="" if names else "not recorded")


def _facts(run: PublishedRun, names: Iterable[str]) -> list[tuple[str, Entry]]:
    return [(name, _fact(run.facts.get(name), run.reasons.get(name))) for name in names]


def _fact(value: Any, reason: str | None) -> Entry:
    if value is None:
        return Entry(text=DASH, hint=reason or "not recorded")
    return Entry(text=plain(value))


def _pairs(title: str, rows: Iterable[tuple[str, Entry]]) -> Table:
    return Table(
        title=title,
        columns=("property", "value", "unknown because"),
        rows=tuple((name, Entry(text=entry.text), entry.hint) for name, entry in rows),
    )
