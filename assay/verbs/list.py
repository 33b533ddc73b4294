"""What there is to run: plugins of every kind, found without importing any of them."""

from typing import Annotated

import typer

from assay.verbs import _flags as flags

EXAMPLE = "Example: assay list probes --plugins my_plugins"


def command() -> typer.Typer:
    app = typer.Typer()
    app.command(help=f"{__doc__} {EXAMPLE}")(list_plugins)
    return app


def list_plugins(
    kind: Annotated[str | None, typer.Argument(help="One kind; all of them by default.")] = None,
    plugins: flags.Plugins = None,
    as_json: flags.Json = False,
) -> None:
    from assay import plugins as folders

    own = folders.check_folders(plugins or ())
    wanted = [folders.kind_named(kind).name] if kind else sorted(folders.kinds())
    found = [plugin for name in wanted for plugin in folders.listing(name, own).values()]
    if as_json:
        _print_json(found)
    else:
        _show(found)


def _state(plugin) -> str:  # noqa: ANN001
    if plugin.problem:
        return plugin.problem
    return f"not installed: {', '.join(plugin.missing)}" if plugin.missing else "ready"


def _show(found: list) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("kind", "name", "what it is", "state", box=None, pad_edge=False)
    for plugin in found:
        table.add_row(plugin.kind, plugin.name, plugin.summary, _state(plugin))
    Console().print(table)


def _print_json(found: list) -> None:
    import json

    for plugin in found:
        row = {"kind": plugin.kind, "name": plugin.name, "summary": plugin.summary}
        print(json.dumps({**row, "path": str(plugin.path), "state": _state(plugin)}))
