"""Colours, markers and dashes, shared by page, charts, print and terminal."""

from collections.abc import Iterable
from dataclasses import dataclass

from assay.reports.chart import Chart

# Okabe and Ito's colours, safe for colour-blind readers. Orange is darkened, and grey and violet
# stand for yellow and sky blue, so that each keeps a contrast of 3:1 on a light and a dark page.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A87400", "#7F7F7F", "#8A63D2")
# Plotly's name and matplotlib's.
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
# The colour above that a status is written in; the rest are quiet.
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


@dataclass(frozen=True, kw_only=True)
class SeriesStyle:
    """Colour, marker and dash of a series; marker and dash as Plotly's name and matplotlib's."""

    colour: str
    marker: tuple[str, str]
    dash: tuple[str, str]


def colours(subjects: Iterable[str]) -> dict[str, str]:
    """A colour for each subject, fixed by its place in sorted order."""
    ordered = sorted(set(subjects))
    return {subject: PALETTE[i % len(PALETTE)] for i, subject in enumerate(ordered)}


def series_styles(chart: Chart, colour_of: dict[str, str]) -> list[SeriesStyle]:
    """A style for each series: colour tells subjects apart, marker and dash tell variants apart.

    Without variants the marker repeats what the colour says, for print in grey, and a dash tells
    apart subjects that share a colour because there are more of them than colours.
    """
    variants = list(dict.fromkeys(series.variant for series in chart.series))
    subjects = list(colour_of)
    styles = []
    for series in chart.series:
        variant, subject = variants.index(series.variant), subjects.index(series.subject)
        shape = variant if len(variants) > 1 else subject
        stroke = variant if len(variants) > 1 else subject // len(PALETTE)
        styles.append(
            SeriesStyle(
                colour=colour_of[series.subject],
                marker=MARKERS[shape % len(MARKERS)],
                dash=DASHES[stroke % len(DASHES)],
            )
        )
    return styles
