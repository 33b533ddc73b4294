"""Make a run's report again from its records alone."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.records.run import RunFolder

EXAMPLE = "Example: assay report results/quickstart/20261115T021048.123Z-1f3a"

_LIST = "list"


class TableFormat(Enum):
    """Forms of a table that is printed alone."""

    MD = "md"
    CSV = "csv"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(report)
    return app


def report(
    path: Annotated[
        Path | None, typer.Argument(help="The run's folder; the newest below --out by default.")
    ] = None,
    out: flags.Out = flags.RESULTS,
    plugins: flags.Plugins = None,
    trust: flags.TrustPlugins = False,
    table: Annotated[
        str | None,
        typer.Option("--table", help="Print this table alone, such as speed; list names them all."),
    ] = None,
    form: Annotated[
        TableFormat | None,
        typer.Option("--format", help="Of --table: Markdown, or CSV with all digits."),
    ] = None,
) -> None:
    from assay.errors import BadInput
    from assay.plugins import check_folders
    from assay.records.named_code import plugins_named_by
    from assay.records.run import newest_run, open_run
    from assay.reports.build import build
    from assay.verbs._running import show_report

    if form and table is None:
        raise BadInput(f"--format {form.value} is the form of one table: add --table NAME, or list")
    folder, run = open_run(path or newest_run(out))
    folders = [*(plugins or ()), *(plugins_named_by(run) if trust else ())]
    if table is not None:
        _print_table(folder, check_folders(folders), table, form)
        return
    built = build(folder, plugin_folders=check_folders(folders))
    show_report(built.report)
    for note in built.notes:
        print(note)
    print(f"report: {built.html or built.markdown}")
    if built.unreadable:
        raise BadInput("; ".join(built.unreadable))


def _print_table(
    folder: "RunFolder", plugin_folders: Sequence[Path], name: str, form: TableFormat | None
) -> None:
    """Print a table of a run's report, or their names; nothing is written."""
    from assay.errors import BadInput, unknown_name
    from assay.reports.contents import read_contents
    from assay.reports.markdown import table_lines
    from assay.reports.report import compose
    from assay.reports.table_files import csv_text, named_tables
    from assay.reports.unchecked import withhold_unchecked

    contents = withhold_unchecked(read_contents(folder))
    tables = named_tables(compose(contents, plugin_folders=plugin_folders))
    if name == _LIST:
        print(*tables, sep="\n")
    elif name not in tables:
        raise BadInput(f"--table {name}: {unknown_name('table of this run', name, tables)}")
    elif form is TableFormat.CSV:
        print(csv_text(tables[name]).decode(), end="")
    else:
        print(*table_lines(tables[name]), sep="\n")
