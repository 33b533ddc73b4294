"""List plugins of every kind, and the steps of models, without importing any of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.plugins import Plugin

EXAMPLE = "Example: assay list probes --plugins my_plugins"
STEPS = "steps"  # no plugins: see assay/models/gpt2/steps.py


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(list_plugins)
    return app


def list_plugins(
    kind: Annotated[
        str | None, typer.Argument(help="One kind, or steps; all of them by default.")
    ] = None,
    plugins: flags.Plugins = None,
    as_json: flags.Json = False,
) -> None:
    from assay import plugins as folders

    if kind == STEPS:
        _list_steps(as_json=as_json)
        return
    own = folders.check_folders(plugins or ())
    wanted = [folders.folders_of(kind)[0].name] if kind else sorted(folders.kinds())
    found = [plugin for name in wanted for plugin in folders.listing(name, own).values()]
    if as_json:
        _print_json(found)
    else:
        _show(found)


def _list_steps(*, as_json: bool) -> None:
    """What ablations call models; docs/models-steps.md has the options too."""
    import json

    from assay.models.gpt2.steps import STEPS as there

    for step in there:
        told = step.description + (f" [{step.wanting}]" if step.wanting else "")
        row = {"kind": STEPS, "name": step.id, "variant": step.variant, "summary": told}
        print(json.dumps(row) if as_json else f"{step.id:<8}  {step.variant:<27}  {told}")


def _state(plugin: "Plugin") -> str:
    if plugin.problem:
        return plugin.problem
    return f"not installed: {', '.join(plugin.missing)}" if plugin.missing else "ready"


def _show(found: "list[Plugin]") -> None:
    """Plain lines, because this is asked often and must answer at once."""
    kinds = max((len(plugin.kind) for plugin in found), default=0)
    names = max((len(plugin.name) for plugin in found), default=0)
    for plugin in found:
        state = "" if _state(plugin) == "ready" else f" [{_state(plugin)}]"
        print(f"{plugin.kind:<{kinds}}  {plugin.name:<{names}}  {plugin.summary}{state}")


def _print_json(found: "list[Plugin]") -> None:
    import json

    for plugin in found:
        row = {"kind": plugin.kind, "name": plugin.name, "summary": plugin.summary}
        print(json.dumps({**row, "path": str(plugin.path), "state": _state(plugin)}))
