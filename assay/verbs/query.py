"""Ask the records of many runs in SQL. Tables: `records`, `attempts` and `runs`."""

import os
import sys
from typing import Annotated

import typer

from assay.verbs import _flags as flags

EXAMPLE = (
    'Example: assay query "SELECT subject, workload.name, median(value) FROM records '
    "WHERE metric = 'latency_ms' GROUP BY ALL\""
)


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(query)
    return app


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT, which reads the records alone.")],
    out: flags.Out = flags.RESULTS,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe", help="Take any SQL: it may read and write files, and load extensions."
        ),
    ] = False,
    as_json: flags.Json = False,
) -> None:
    from assay.records.query import Records

    records = Records(out)
    answer = records.query(sql, unsafe=unsafe)
    for path, count in answer.torn.items():
        print(f"{path}: {count} bytes after the last complete batch are left out", file=sys.stderr)
    if as_json:
        import json

        for row in answer.rows:
            print(json.dumps(dict(zip(answer.columns, row, strict=True)), default=str))
    else:
        _show(answer.columns, answer.rows)
    if os.access(out, os.W_OK):
        records.index()
    else:
        print(f"{out} cannot be written to, so the next query is not faster", file=sys.stderr)


def _show(columns: list[str], rows: list[tuple]) -> None:
    from assay.reports.table import Table
    from assay.reports.terminal import console, show

    texts = tuple(tuple("null" if value is None else str(value) for value in row) for row in rows)
    show(
        Table(title=f"{len(rows):,} rows", columns=tuple(columns), rows=texts),
        console(),
        exact_names=True,
    )
