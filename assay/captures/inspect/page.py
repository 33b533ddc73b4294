"""Page about captured calls, one file that needs no network: sentences, figures, tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from assay.captures.inspect.inspection import Inspection
from assay.captures.inspect.layers import by_layer
from assay.captures.inspect.overview import Figure, FigurePanel, overview
from assay.captures.inspect.tables import model_facts
from assay.records.durable import write_atomically
from assay.reports.html import chooser, document, folded, tables
from assay.reports.numerals import counted, size_in_bytes


@dataclass(frozen=True, kw_only=True)
class PageHead:
    """Sentences at the top of the page."""

    title: str
    verdict: str
    tone: str
    facts: tuple[str, ...]
    headlines: tuple[str, ...]
    problems: tuple[str, ...]


def write_page(inspection: Inspection, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_atomically(path, page(inspection).encode())


def page(inspection: Inspection) -> str:
    """The page as HTML."""
    details = [*inspection.runs_tables(), *inspection.tensors_tables()]
    body = (
        *section("overview", "All layers and heads", overview(inspection.sites)),
        *section("layers", "Layer by layer", by_layer(inspection.sites)),
        tables("records", "Captured calls", inspection.calls_tables()),
        folded("details", "Runs and tensors", details),
    )
    return document(_head(inspection), body)


def _head(inspection: Inspection) -> PageHead:
    sentences = inspection.observations
    quiet = sentences[0].startswith("Nothing")
    several = "1 thing stands" if len(sentences) == 1 else f"{len(sentences)} things stand"
    return PageHead(
        title=f"{inspection.path.name}: {inspection.headline}",
        verdict=sentences[0].partition(":")[0].rstrip(".") if quiet else f"{several} out",
        tone="ok" if quiet else "refused",
        facts=tuple(_facts(inspection)),
        headlines=tuple(sentences),
        problems=tuple(inspection.problems),
    )


def _facts(inspection: Inspection) -> Iterator[str]:
    runs = inspection.manifest.runs if inspection.manifest else ()
    yield from dict.fromkeys(fact for run in runs for fact in model_facts(run))
    records = [call.record for call in inspection.calls if call.record]
    if phases := sorted({record.phase for record in records}):
        yield f"phases: {', '.join(phases)}"
    if steps := len({record.key.step for record in records}):
        yield counted(steps, "step")
    yield size_in_bytes(sum(call.stored_bytes for call in inspection.calls))
    cuts = {f"{name} {kept}" for record in records for name, kept in record.cut.items()}
    if cuts:
        yield f"only {', '.join(sorted(cuts))}, renumbered from 0"


def section(name: str, heading: str, figures: Sequence[Figure]) -> Iterator[str]:
    """Lines of a section of figures; none where there is nothing to draw."""
    drawn = [figure for figure in figures if figure.panels]
    if not drawn:
        return
    yield f'<section id="{name}"><h2>{heading}</h2><div class="figures">'
    for figure in drawn:
        yield f"<figure><figcaption>{escape(figure.title)}</figcaption>"
        names = [panel.name for panel in figure.panels]
        shown = figure.shown or names[0]
        if len(names) > 1:
            yield chooser(figure.title, names, of=figure.panels_of, shown=figure.shown)
        for panel in figure.panels:
            yield from _panel(panel, hidden=panel.name != shown)
        yield "</figure>"
    yield "</div></section>"


def _panel(panel: FigurePanel, *, hidden: bool) -> Iterator[str]:
    state = " hidden" if hidden else ""
    yield f'<div class="panel" data-panel="{escape(panel.name)}"{state}>{panel.svg}'
    yield from (f'<p class="note">{escape(note)}</p>' for note in panel.notes)
    yield "</div>"
