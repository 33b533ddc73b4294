"""Make a run's report again from its records alone."""

from pathlib import Path
from typing import Annotated

import typer

from assay.verbs import _flags as flags

EXAMPLE = "Example: assay report results/quickstart/20261115T021048.123Z-1f3a"


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
) -> None:
    from assay.plugins import check_folders
    from assay.records.run import newest_run, open_run, plugins_named_by
    from assay.reports.build import build
    from assay.verbs._running import show_report

    folder, run = open_run(path or newest_run(out))
    folders = [*(plugins or ()), *(plugins_named_by(run) if trust else ())]
    built = build(folder, plugin_folders=check_folders(folders))
    show_report(built.report, results=True)
    for note in built.notes:
        print(note)
    print(f"report: {built.html or built.markdown}")
