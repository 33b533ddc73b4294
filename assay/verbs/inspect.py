"""Look at captured calls: statistics, outlier channels, entropy of attention; or compare two."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

if TYPE_CHECKING:
    from assay.captures.inspect.inspection import Inspection

EXAMPLE = "Example: assay inspect captures/smollm2 layer=3,phase=prefill --html layer3.html"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(inspect)
    return app


def inspect(
    path: Annotated[Path, typer.Argument(help="A store, or one .npz or .safetensors file.")],
    records: Annotated[
        str | None,
        typer.Argument(
            help="Which calls: a name, a pattern, or step=3,layer=0:4,phase=decode; "
            "with --diff the other store or file."
        ),
    ] = None,
    chosen: Annotated[
        str | None, typer.Argument(help="With --diff: which calls of both.", show_default=False)
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Compare two; exit code 1 where they differ.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page with pictures to this file.")
    ] = None,
    head: Annotated[
        int | None,
        typer.Option("--head", min=0, help="Whose attention is drawn; that of median entropy."),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    from assay.errors import BadInput

    if diff:
        from assay.captures.inspect.difference_table import compare

        if records is None or html:
            raise BadInput("--diff compares two: assay inspect --diff FIRST SECOND, without --html")
        finish(compare(path, Path(records), chosen, as_json=as_json))
    if chosen is not None:
        raise BadInput(f"{chosen!r} is one argument too many; two stores are compared with --diff")
    inspection = _inspected(path, records, head=head, pictures=html is not None)
    _report(inspection, html, as_json=as_json)


def _inspected(
    path: Path, records: str | None, *, head: int | None, pictures: bool
) -> "Inspection":
    from assay.captures.inspect import file_summary, is_file, largest_calls, summaries
    from assay.captures.inspect.inspection import Inspection, with_progress
    from assay.captures.store import Store
    from assay.errors import BadInput

    if is_file(path):
        if records:
            raise BadInput(f"{path} is one file: it has no records to choose from")
        return Inspection(path=path, calls=[file_summary(path)], manifest=None)
    store = Store.open(path)
    manifest = store.manifest()
    chosen = store.find(records) if records else manifest.records
    maps_of = largest_calls(chosen) if pictures else ()
    found = summaries(store, chosen, maps_of=maps_of, head=head)
    return Inspection(path=path, calls=list(with_progress(found, len(chosen))), manifest=manifest)


def _report(inspection: "Inspection", html: Path | None, *, as_json: bool) -> None:
    import sys

    from assay.captures.inspect import inspection as output

    if html:  # before anything is printed, which a closed pipe would end
        output.write_page(inspection, html)
        print(f"page: {html}", file=sys.stderr if as_json else sys.stdout)
    if as_json:
        output.print_json(inspection.calls)
    else:
        output.show(inspection)
