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
        str | None,
        typer.Option(
            "--head",
            help="LAYER.HEAD: draw its attention, queries by keys, on a page of all heads of the "
            "layer. A number alone: the head that --html draws of each layer; else that of median "
            "entropy.",
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option("--png", help="With --head LAYER.HEAD: a picture (.png, .pdf, .svg) instead."),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    import sys

    from assay.errors import BadInput

    if diff:
        from assay.captures.inspect.difference_table import compare

        drawn = {"--html": html, "--head": head, "--png": png}
        if given := [flag for flag, value in drawn.items() if value is not None]:
            raise BadInput(f"--diff compares numbers and draws nothing; leave out {given[0]}")
        if records is None:
            raise BadInput("--diff compares two: assay inspect --diff FIRST SECOND")
        finish(compare(path, Path(records), chosen, as_json=as_json))
    if chosen is not None:
        raise BadInput(f"{chosen!r} is one argument too many; two stores are compared with --diff")

    if head is not None and "." in head:
        if as_json:
            raise BadInput(f"--head {head} draws a picture, which has no JSON; leave out --json")
        _draw_head(path, records, head, html, png)
        return
    if png is not None:
        raise BadInput("--png is the picture of one head; name it, such as --head 3.7")
    from assay.captures.inspect.inspection import inspect_path, print_json, show

    if head is not None and not head.isdecimal():
        raise BadInput(f"--head is {head!r}; wanted HEAD, or LAYER.HEAD such as 3.7")
    chosen_head = None if head is None else int(head)
    inspection = inspect_path(path, records, with_maps=html is not None, head=chosen_head)
    if html:  # before anything is printed, which a closed pipe would end
        from assay.captures.inspect.page import write_page

        write_page(inspection, html)
        print(f"page: {html}", file=sys.stderr if as_json else sys.stdout)
    (print_json if as_json else show)(inspection)


def _draw_head(
    path: Path, records: str | None, head: str, html: Path | None, png: Path | None
) -> None:
    """Write the attention of one head as a page or a picture, and say where."""
    from assay.captures.inspect.inspection import is_file
    from assay.captures.inspect.pattern import (
        parse_head,
        pattern,
        write_pattern_page,
        write_picture,
    )
    from assay.captures.store import Store
    from assay.errors import BadInput

    layer, number = parse_head(head)
    if is_file(path):
        raise BadInput(f"--head {head} chooses among layers; wanted a store, {path} is one file")
    drawn = pattern(Store.open(path), records, layer=layer, head=number)
    if png:
        write_picture(drawn, png)
    if html or not png:
        html = html or Path(f"head-{layer}.{number}.html")
        write_pattern_page(drawn, html)
    for name, file in (("page", html), ("picture", png)):
        if file:
            print(f"{name}: {file}")
