"""How `assay inspect` tells what it saw: on the terminal, as JSON lines, as a page."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from assay.captures.inspect.tables import (
    MOST_ROWS,
    calls_table,
    model_facts,
    runs_table,
    sites_table,
    tensors_table,
)

if TYPE_CHECKING:
    from assay.captures.inspect.sites import SiteSummary
    from assay.captures.inspect.summary import CallSummary
    from assay.captures.manifest import Manifest
    from assay.reports.table import Table


@dataclass(frozen=True, kw_only=True, eq=False)
class Inspection:
    """What was looked at: a store, with its manifest, or one file."""

    path: Path
    calls: list["CallSummary"]
    manifest: "Manifest | None"

    @cached_property
    def site_summaries(self) -> list["SiteSummary"]:
        from assay.captures.inspect.sites import site_summaries

        return site_summaries(self.calls)

    @cached_property
    def sentences(self) -> list[str]:
        """What stands out."""
        from assay.captures.inspect.observations import observations

        return observations(self.site_summaries)

    @property
    def problems(self) -> list[str]:
        """What is missing of the store, or may be."""
        return list(_problems(self.manifest)) if self.manifest else []

    @property
    def headline(self) -> str:
        layers = len({(s.run, s.rank, s.layer, s.site) for s in self.site_summaries})
        if not self.calls:
            return "no captured calls"
        if self.manifest is None:
            return f"{len(self.calls[0].tensors)} tensors"
        calls = f"{len(self.calls):,} captured call{'s' if len(self.calls) > 1 else ''}"
        return f"{calls} of {layers:,} attention layer{'s' if layers > 1 else ''}"

    def tables(self) -> "list[Table]":
        """Calls one by one, or by site where there are many."""
        if not self.calls:
            return []
        many = len(self.calls) > MOST_ROWS
        return [sites_table(self.site_summaries) if many else calls_table(self.calls)]

    def tensors(self) -> "Table":
        """Of every call, or of the largest of each site where there are many."""
        many = len(self.calls) > MOST_ROWS
        return tensors_table(
            [site.largest_call for site in self.site_summaries] if many else self.calls
        )


def show(inspection: Inspection) -> None:
    """Sentences first, then the tables."""
    from assay.reports.terminal import console
    from assay.reports.terminal import show as show_table

    screen = console()
    screen.print(
        f"{inspection.path}: {inspection.headline}", style="bold", markup=False, highlight=False
    )
    for sentence in inspection.sentences if inspection.calls else ():
        screen.print(f"- {sentence}", markup=False, highlight=False)
    for problem in inspection.problems:
        screen.print(f"! {problem}", markup=False, highlight=False)
    if inspection.manifest and inspection.manifest.runs:
        show_table(runs_table(inspection.manifest), screen)
    for table in inspection.tables():
        show_table(table, screen, most_rows=MOST_ROWS)
    if inspection.calls:
        show_table(inspection.tensors(), screen, most_rows=MOST_ROWS)


def write_page(inspection: Inspection, path: Path) -> None:
    """The page as one file, whole or not there."""
    from assay.captures.inspect.layers import by_layer
    from assay.captures.inspect.overview import overview
    from assay.captures.inspect.page import CapturePage, capture_page
    from assay.records.durable import write_atomically

    sentences = inspection.sentences if inspection.calls else ["There is nothing to see."]
    quiet = sentences[0].startswith(("Nothing", "There is nothing"))
    several = "1 thing stands" if len(sentences) == 1 else f"{len(sentences)} things stand"
    page = CapturePage(
        title=f"{inspection.path.name}: {inspection.headline}",
        verdict=sentences[0].partition(":")[0].rstrip(".") if quiet else f"{several} out",
        tone="ok" if quiet else "refused",
        facts=tuple(_facts(inspection)),
        answers=tuple(sentences),
        problems=tuple(inspection.problems),
        overview=overview(inspection.site_summaries),
        layers=by_layer(inspection.site_summaries),
        tables=tuple(inspection.tables()),
        details=tuple(_details(inspection)),
    )
    write_atomically(path, capture_page(page).encode())


def _details(inspection: Inspection) -> "Iterator[Table]":
    if inspection.manifest and inspection.manifest.runs:
        yield runs_table(inspection.manifest)
    if inspection.calls:
        yield inspection.tensors()


def _facts(inspection: Inspection) -> Iterator[str]:
    from assay.reports.numerals import size_in_bytes

    runs = inspection.manifest.runs if inspection.manifest else ()
    yield from dict.fromkeys(fact for run in runs for fact in model_facts(run))
    phases = sorted({call.phase for call in inspection.calls if call.phase})
    if phases:
        yield f"phases: {', '.join(phases)}"
    steps = {call.key.step for call in inspection.calls if call.key}
    if steps:
        yield f"{len(steps):,} step{'s' if len(steps) > 1 else ''}"
    yield size_in_bytes(sum(call.stored_bytes for call in inspection.calls))
    cuts = {f"{name} {kept}" for call in inspection.calls for name, kept in call.cut.items()}
    if cuts:
        yield f"of {', '.join(sorted(cuts))} alone, counted anew"


def _problems(manifest: "Manifest") -> Iterator[str]:
    ended = {(end.run, end.rank): end for end in manifest.ends}
    losses = {(drop.run, drop.rank): drop.counts for drop in manifest.drops}
    for run in manifest.runs:
        place = (run.run, run.rank)
        name = run.run + (f" of rank {run.rank}" if run.rank else "")
        lost = ended[place].dropped if place in ended else losses.get(place, {})
        if place not in ended:
            yield f"run {name} did not end: it was killed, or still runs"
        if lost:
            told = ", ".join(f"{count:,} {reason}" for reason, count in lost.items())
            yield f"run {name} dropped calls that were wanted: {told}"
    if manifest.torn_bytes:
        yield f"{manifest.torn_bytes:,} bytes of the manifest are no whole line and are passed over"


def print_json(calls: Iterable["CallSummary"]) -> None:
    """One JSON object for each call."""
    import json

    from assay.captures.inspect.plain import as_json

    for call in calls:
        print(json.dumps(as_json(call), allow_nan=False))


def with_progress(calls: Iterable["CallSummary"], count: int) -> Iterator["CallSummary"]:
    """The looks, with a bar on a terminal while they are made."""
    from rich.console import Console
    from rich.progress import track

    screen = Console(stderr=True)
    yield from track(
        calls,
        description="reading",
        total=count,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
