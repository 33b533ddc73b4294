"""One place for colours, fonts and sizes, shared by page, charts, print and terminal."""

from collections.abc import Iterable
from dataclasses import dataclass

from assay.reports.chart import Chart

# Okabe and Ito's colours, safe for colour-blind readers. Orange is darkened, and grey and violet
# stand for yellow and sky blue, so that each keeps a contrast of 3:1 on a light and a dark page.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A87400", "#7F7F7F", "#8A63D2")
MARKERS = (("circle", "o"), ("square", "s"), ("diamond", "D"), ("triangle-up", "^"), ("x", "X"))
DASHES = (("solid", "-"), ("dash", "--"), ("dot", ":"), ("dashdot", "-."))

LIGHT = {
    "page": "#ffffff",
    "raised": "#f5f6f8",
    "ink": "#1b1f24",
    "quiet": "#59636e",
    "line": "#d5d9de",
    "failed": "#b3261e",
    "warned": "#8a5300",
    "ok": "#1a6e3c",
    "limit": "#b3261e",
    "heat": "#0b4f8a",
}
DARK = {
    "page": "#14171a",
    "raised": "#1d2125",
    "ink": "#e4e7ea",
    "quiet": "#9aa4ae",
    "line": "#343a40",
    "failed": "#ff8a80",
    "warned": "#f0b45a",
    "ok": "#72d196",
    "limit": "#ff8a80",
    "heat": "#8fd0ff",
}
# Which of the colours above a status is written in; the rest are quiet.
TONES = {
    "failed": "failed",
    "unreadable": "failed",
    "oom": "warned",
    "timeout": "warned",
    "unfinished": "warned",
    "refused": "warned",
    "ok": "ok",
}
TERMINAL_TONES = {
    name: {"failed": "bold red", "warned": "yellow", "ok": "green"}[kind]
    for name, kind in TONES.items()
}

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif'
CODE_FONT = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'
CHART_FONT_PX = 13
CHART_HEIGHT_PX = 380
LEGEND_ROW_PX, LEGEND_KEY_PX, LEGEND_LETTER_PX, LEGEND_WIDTH_PX = 20, 46, 7, 500
LISTED_ROW_PX = 28
LINE_WIDTH = 1.8
MARKER_PX = 8

PRINT_DPI = 300
PRINT_WIDTH_IN = 6.5
PRINT_HEIGHT_IN = 4.0
PRINT_ROW_IN = 0.24
PANEL_HEIGHT_IN = 1.75
PANEL_COLUMNS = 3
PANEL_FONT_PT = 6.5
PRINT_FONT_PT = 9


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a series is drawn; marker and dash hold Plotly's name and matplotlib's."""

    colour: str
    marker: tuple[str, str]
    dash: tuple[str, str]


def colours(subjects: Iterable[str]) -> dict[str, str]:
    """A colour for each subject, fixed by its place in sorted order."""
    ordered = sorted(set(subjects))
    return {subject: PALETTE[i % len(PALETTE)] for i, subject in enumerate(ordered)}


def looks(chart: Chart, colour_of: dict[str, str]) -> list[Look]:
    """A look for each series: colour tells subjects apart; marker and dash tell variants apart.

    Without variants the marker repeats what the colour says, for print in grey, and a dash tells
    apart subjects that share a colour because there are more of them than colours.
    """
    variants = list(dict.fromkeys(series.variant for series in chart.series))
    subjects = list(colour_of)
    found = []
    for series in chart.series:
        variant, subject = variants.index(series.variant), subjects.index(series.subject)
        shape = variant if len(variants) > 1 else subject
        stroke = variant if len(variants) > 1 else subject // len(PALETTE)
        found.append(
            Look(
                colour=colour_of[series.subject],
                marker=MARKERS[shape % len(MARKERS)],
                dash=DASHES[stroke % len(DASHES)],
            )
        )
    return found
