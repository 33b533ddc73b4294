"""Records of a store as single files, out and in: `assay capture export` and `import`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.captures.exchange import ImportedCall
    from assay.captures.foreign import ForeignSettings
    from assay.errors import BadInput

EXPORT = "Example: assay capture export captures/smollm2 layer=3 --to exchange"
IMPORT = "Example: assay capture import exchange/*.npz --to captures/theirs"


def export(
    path: Annotated[Path, typer.Argument(help="A store of captures.")],
    records: Annotated[
        str | None,
        typer.Argument(help="Some of its records: a name, a pattern, or step=0,layer=3:5."),
    ] = None,
    to: Annotated[Path, typer.Option("--to", help="The folder for the files.")] = Path("exchange"),
) -> None:
    """Write records as attention_inputs_<time>_<key>.npz, each complete in itself."""
    from assay.captures import exchange
    from assay.captures.store import Store
    from assay.errors import BadInput

    store = Store.open(path)
    found = store.find(records) if records else store.manifest().records
    full = [record for record in found if record.mode == "full"]
    if not full:
        held = f"only {found[0].mode}" if found else "no records"
        raise BadInput(f"{path} has {held}; wanted records with tensors, captured with --mode full")
    files = exchange.export(store, full, to)
    left = f"; {len(found) - len(full)} without tensors were left out" if found != full else ""
    print(f"wrote {len(files)} files to {to}{left}")


def import_(
    files: Annotated[list[Path], typer.Argument(help="The .npz files.")],
    to: Annotated[Path, typer.Option("--to", help="The store; it is made where there is none.")],
    foreign: Annotated[
        bool, typer.Option("--foreign", help="The files have plain q, k and v, by others.")
    ] = False,
    order: Annotated[
        str, typer.Option("--order", help="Axes of foreign q, k, v and out: BHSD or BSHD.")
    ] = "BHSD",
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="Of foreign arrays of bits, such as bfloat16.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option("--scale", help="Of foreign calls; else 1 / sqrt(head_dim).")
    ] = None,
    causal: Annotated[
        bool | None, typer.Option(help="Whether foreign calls are; else as the file says, or no.")
    ] = None,
    alignment: Annotated[
        str | None,
        typer.Option("--alignment", help="Of foreign causal calls: bottom-right or top-left."),
    ] = None,
) -> None:
    """Take files into a store: what `export` wrote, or with --foreign plain q, k and v."""
    import sys

    from assay.captures import exchange
    from assay.captures.foreign import ForeignSettings
    from assay.captures.store import Store
    from assay.errors import BAD_INPUT

    settings = ForeignSettings(
        order=order, dtype=dtype, scale=scale, causal=causal, alignment=alignment
    )
    store = Store.create(to)
    arrivals = _foreign(files, settings) if foreign else _ours(files)
    found = exchange.import_calls(store, arrivals)
    for path, name in found.added.items():
        print(f"took {path}: {name}")
    for path, name in found.present.items():
        print(f"had {path}: {name}")
    for path, why in found.refused.items():
        print(f"assay: refused {path}: {why}", file=sys.stderr)
    if found.refused:
        raise typer.Exit(BAD_INPUT)


def _ours(files: "Sequence[Path]") -> "Iterator[tuple[Path, ImportedCall | BadInput]]":
    from assay.captures import exchange
    from assay.errors import BadInput

    for path in files:
        try:
            yield path, exchange.read_exported(path)
        except BadInput as error:
            yield path, error


def _foreign(
    files: "Sequence[Path]", settings: "ForeignSettings"
) -> "Iterator[tuple[Path, ImportedCall | BadInput]]":
    from assay.captures import foreign
    from assay.captures.store import new_run_name
    from assay.errors import BadInput

    run = new_run_name()
    for step, path in enumerate(files):
        try:
            arrival, ignored = foreign.read_foreign(path, run=run, step=step, settings=settings)
        except BadInput as error:
            yield path, error
            continue
        if ignored:
            print(f"left out of {path}: {', '.join(ignored)}")
        yield path, arrival
