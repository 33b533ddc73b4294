"""Inspect captured calls: statistics, outlier channels, entropy of attention; or compare two."""

from pathlib import Path
from typing import Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

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
        bool, typer.Option("--diff", help="Compare two; exit code 1 if they differ.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page with figures to this file.")
    ] = None,
    head: Annotated[
        int | None,
        typer.Option("--head", min=0, help="Head to draw; else that of median entropy."),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    import sys

    from assay.errors import BadInput

    if diff:
        from assay.captures.inspect.difference_table import compare

        if records is None or html:
            raise BadInput("--diff compares two: assay inspect --diff FIRST SECOND, without --html")
        finish(compare(path, Path(records), chosen, as_json=as_json))
    if chosen is not None:
        raise BadInput(f"{chosen!r} is one argument too many; two stores are compared with --diff")

    from assay.captures.inspect.inspection import inspect_path, print_json, show

    inspection = inspect_path(path, records, with_maps=html is not None, head=head)
    if html:  # before anything is printed, which a closed pipe would end
        from assay.captures.inspect.page import write_page

        write_page(inspection, html)
        print(f"page: {html}", file=sys.stderr if as_json else sys.stdout)
    (print_json if as_json else show)(inspection)
