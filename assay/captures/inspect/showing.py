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
    site_phases_table,
    tensors_table,
)

if TYPE_CHECKING:
    from assay.captures.inspect.look import Look
    from assay.captures.inspect.site_phases import SitePhase
    from assay.captures.manifest import Manifest
    from assay.reports.table import Table


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What was looked at: a store, with its manifest, or one file."""

    path: Path
    looks: list["Look"]
    manifest: "Manifest | None"

    @cached_property
    def site_phases(self) -> list["SitePhase"]:
        from assay.captures.inspect.site_phases import site_phases

        return site_phases(self.looks)

    @cached_property
    def sentences(self) -> list[str]:
        """What stands out."""
        from assay.captures.inspect.findings import findings

        return findings(self.site_phases)

    @property
    def problems(self) -> list[str]:
        """What is missing of the store, or may be."""
        return list(_problems(self.manifest)) if self.manifest else []

    @property
    def headline(self) -> str:
        layers = len({(s.run, s.rank, s.layer, s.site) for s in self.site_phases})
        if not self.looks:
            return "no captured calls"
        if self.manifest is None:
            return f"{len(self.looks[0].tensors)} tensors"
        calls = f"{len(self.looks):,} captured call{'s' if len(self.looks) > 1 else ''}"
        return f"{calls} of {layers:,} attention layer{'s' if layers > 1 else ''}"

    def tables(self) -> "list[Table]":
        """Calls one by one, or by site where there are many."""
        if not self.looks:
            return []
        many = len(self.looks) > MOST_ROWS
        return [site_phases_table(self.site_phases) if many else calls_table(self.looks)]

    def tensors(self) -> "Table":
        """Of every call, or of the largest of each site where there are many."""
        many = len(self.looks) > MOST_ROWS
        return tensors_table([site.fullest for site in self.site_phases] if many else self.looks)


def show(seen: Seen) -> None:
    """Sentences first, then the tables."""
    from assay.reports.terminal import console
    from assay.reports.terminal import show as show_table

    screen = console()
    screen.print(f"{seen.path}: {seen.headline}", style="bold", markup=False, highlight=False)
    for sentence in seen.sentences if seen.looks else ():
        screen.print(f"- {sentence}", markup=False, highlight=False)
    for problem in seen.problems:
        screen.print(f"! {problem}", markup=False, highlight=False)
    if seen.manifest and seen.manifest.runs:
        show_table(runs_table(seen.manifest), screen)
    for table in seen.tables():
        show_table(table, screen, most_rows=MOST_ROWS)
    if seen.looks:
        show_table(seen.tensors(), screen, most_rows=MOST_ROWS)


def write_page(seen: Seen, path: Path) -> None:
    """The page as one file, whole or not there."""
    from assay.captures.inspect.layer_drawings import by_layer
    from assay.captures.inspect.maps import overview
    from assay.captures.inspect.page import CapturePage, capture_page
    from assay.records.durable import write_atomically

    sentences = seen.sentences if seen.looks else ["There is nothing to see."]
    quiet = sentences[0].startswith(("Nothing", "There is nothing"))
    several = "1 thing stands" if len(sentences) == 1 else f"{len(sentences)} things stand"
    page = CapturePage(
        title=f"{seen.path.name}: {seen.headline}",
        verdict=sentences[0].partition(":")[0].rstrip(".") if quiet else f"{several} out",
        tone="ok" if quiet else "refused",
        facts=tuple(_facts(seen)),
        answers=tuple(sentences),
        problems=tuple(seen.problems),
        overview=overview(seen.site_phases),
        layers=by_layer(seen.site_phases),
        tables=tuple(seen.tables()),
        details=tuple(_details(seen)),
    )
    write_atomically(path, capture_page(page).encode())


def _details(seen: Seen) -> "Iterator[Table]":
    if seen.manifest and seen.manifest.runs:
        yield runs_table(seen.manifest)
    if seen.looks:
        yield seen.tensors()


def _facts(seen: Seen) -> Iterator[str]:
    from assay.reports.numerals import size_in_bytes

    runs = seen.manifest.runs if seen.manifest else ()
    yield from dict.fromkeys(fact for run in runs for fact in model_facts(run))
    phases = sorted({look.phase for look in seen.looks if look.phase})
    if phases:
        yield f"phases: {', '.join(phases)}"
    steps = {look.key.step for look in seen.looks if look.key}
    if steps:
        yield f"{len(steps):,} step{'s' if len(steps) > 1 else ''}"
    yield size_in_bytes(sum(look.stored_bytes for look in seen.looks))
    cuts = {f"{name} {kept}" for look in seen.looks for name, kept in look.cut.items()}
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


def print_json(looks: Iterable["Look"]) -> None:
    """One JSON object for each call."""
    import json

    from assay.captures.inspect.plain import as_plain

    for look in looks:
        print(json.dumps(as_plain(look), allow_nan=False))


def followed(looks: Iterable["Look"], count: int) -> Iterator["Look"]:
    """The looks, with a bar on a terminal while they are made."""
    from rich.console import Console
    from rich.progress import track

    screen = Console(stderr=True)
    yield from track(
        looks,
        description="looking",
        total=count,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
