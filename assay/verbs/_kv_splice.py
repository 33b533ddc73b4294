"""`assay kv splice`: what training made of the codecs in a checkpoint."""

from pathlib import Path
from typing import Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

SPLICE = "Example: assay kv splice run/model.safetensors"
ROWS = "splice_parameters.jsonl"


def splice(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint of a variant with KV.")],
    as_json: flags.Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", help=f"A folder for the rows, {ROWS}.")
    ] = None,
) -> None:
    """Read scale and shift of KVSplice's codecs; exit 1 where none learns or one is not finite."""
    from assay.models import splice_parameters as codecs
    from assay.reports.row_files import print_rows, write_rows
    from assay.reports.splice_parameters import parameter_table
    from assay.reports.terminal import console, show

    rows = codecs.read_parameters(checkpoint)
    if as_json:
        print_rows(rows)
    else:
        title = f"Codecs of {rows[0]['model']} in {checkpoint}"
        note = codecs.advice(rows)
        show(parameter_table(title, rows, below=codecs.PRUNABLE, note=note), console())
    if out:
        write_rows(out / ROWS, rows)
    finish(0 if codecs.any_learns(rows) else 1)
