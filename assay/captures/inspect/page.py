"""A page about captured calls: sentences first, then pictures, then tables.

It is given plain data and finished drawings, so that the page needs nothing of the rooms that
captured and measured.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from assay.reports.html import chooser, document, folded, tables
from assay.reports.table import Table


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One picture as SVG, and what is said below it."""

    panel: str  # what it is of: a layer, a phase
    svg: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Drawings of the same thing, of which one is shown at a time."""

    title: str
    panels_are: str
    drawings: tuple[Drawing, ...]
    shown: str | None = None  # the panel at first; the first one where none is said


@dataclass(frozen=True, kw_only=True)
class CapturePage:
    """All that is told of a store; `answers` are the sentences on what stands out."""

    title: str
    verdict: str
    tone: str
    facts: tuple[str, ...]
    answers: tuple[str, ...]
    problems: tuple[str, ...]
    overview: tuple[Figure, ...]
    layers: tuple[Figure, ...]
    tables: tuple[Table, ...]
    details: tuple[Table, ...]


def capture_page(page: CapturePage) -> str:
    """The page as one file that needs no network."""
    return document(
        page,
        (
            *_section("overview", "All layers and heads", page.overview),
            *_section("layers", "Layer by layer", page.layers),
            *tables("records", "Captured calls", page.tables),
            *folded("details", "Runs and tensors", page.details),
        ),
    )


def _section(name: str, heading: str, figures: Sequence[Figure]) -> Iterator[str]:
    shown = [figure for figure in figures if figure.drawings]
    if not shown:
        return
    yield f'<section id="{name}"><h2>{heading}</h2><div class="figures">'
    for figure in shown:
        yield f"<figure><figcaption>{escape(figure.title)}</figcaption>"
        if len(figure.drawings) > 1:
            panels = [drawing.panel for drawing in figure.drawings]
            yield chooser(figure.title, panels, of=figure.panels_are, shown=figure.shown)
        shown_first = figure.shown or figure.drawings[0].panel
        for drawing in figure.drawings:
            yield from _panel(drawing, hidden=drawing.panel != shown_first)
        yield "</figure>"
    yield "</div></section>"


def _panel(drawing: Drawing, *, hidden: bool) -> Iterator[str]:
    state = " hidden" if hidden else ""
    yield f'<div class="panel" data-panel="{escape(drawing.panel)}"{state}>{drawing.svg}'
    yield from (f'<p class="note">{escape(note)}</p>' for note in drawing.notes)
    yield "</div>"
