"""List plugins of every kind, models and the steps of ablations, without importing any of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from assay.records.foreign_text import visible
from assay.verbs import _completion as completion
from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from pathlib import Path

    from assay.plugins import Plugin

EXAMPLE = "Example: assay list probes --plugins my_plugins"
PARTS = "parts"  # of models; only they have options
STEPS = "steps"  # no plugins: see assay/models/gpt2/steps.py
MODELS = "models"  # of parts, and those that can be captured


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(list_plugins)
    return app


def list_plugins(
    kind: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.kinds, help="One kind, models or steps; all kinds by default."
        ),
    ] = None,
    plugins: flags.Plugins = None,
    as_json: flags.Json = False,
) -> None:
    from assay.plugins import check_folders, folders_of, kinds, listing

    if kind == STEPS:
        _list_steps(as_json=as_json)
        return
    folders = check_folders(plugins or ())
    if kind == MODELS:
        _list_models(folders, as_json=as_json)
        return
    wanted = [folders_of(kind)[0].name] if kind else sorted(kinds())
    listed = [plugin for name in wanted for plugin in listing(name, folders).values()]
    if as_json:
        _print_json(listed)
    else:
        _show(listed)


def _list_steps(*, as_json: bool) -> None:
    """Print the models that ablations name; docs/models-steps.md has the options too."""
    import json

    from assay.models.gpt2 import steps

    for step in steps.STEPS:
        summary = step.description
        row = {"kind": STEPS, "name": step.id, "variant": step.variant, "summary": summary}
        print(json.dumps(row) if as_json else f"{step.id:<8}  {step.variant:<27}  {summary}")


def _list_models(folders: "tuple[Path, ...]", *, as_json: bool) -> None:
    """Print what `check --models` examines, and what `capture` can open without a file."""

    from assay.correctness.models.selection import select
    from assay.models.pretrained import catalog

    for model in select(["all"], folders).models:
        parts = " ".join(model.tags) or ("your class" if model.file else "no parts")
        steps = f"; step {', '.join(model.steps)}" if model.steps else ""
        _print_model(model.name, f"check --models: {parts}{steps}", as_json=as_json)
    for name in catalog.names():
        _print_model(
            name, "capture: a language model that needs no file and no network", as_json=as_json
        )


def _print_model(name: str, summary: str, *, as_json: bool) -> None:
    import json

    row = {"kind": MODELS, "name": name, "summary": summary}
    print(json.dumps(row) if as_json else f"{name:<34}  {summary}")


def _state(plugin: "Plugin") -> str:
    if plugin.problem:
        return plugin.problem
    return f"not installed: {', '.join(plugin.missing)}" if plugin.missing else "ready"


def _options(plugin: "Plugin") -> tuple[dict[str, object], str]:
    """Defaults of a model part's options by name, and the state with what is wrong with them."""
    from assay.errors import BadInput
    from assay.models.gpt2.options import declared

    if plugin.kind != PARTS or plugin.problem:
        return {}, _state(plugin)
    try:
        return {option.name: option.default for option in declared(plugin)}, _state(plugin)
    except BadInput as error:
        return {}, str(error)


def _show(listed: "list[Plugin]") -> None:
    """Print plain lines: a table's library would take longer to load than all the rest."""
    kinds = max((len(plugin.kind) for plugin in listed), default=0)
    names = max((len(plugin.name) for plugin in listed), default=0)
    for plugin in listed:
        options, state = _options(plugin)
        defaults = ", ".join(f"{name}={value}" for name, value in options.items())
        summary = plugin.summary + (f" Options: {defaults}." if defaults else "")
        note = "" if state == "ready" else f" [{state}]"
        print(visible(f"{plugin.kind:<{kinds}}  {plugin.name:<{names}}  {summary}{note}"))


def _print_json(listed: "list[Plugin]") -> None:
    import json

    for plugin in listed:
        options, state = _options(plugin)
        row = {"kind": plugin.kind, "name": plugin.name, "summary": plugin.summary}
        print(json.dumps({**row, "path": str(plugin.path), "state": state, "options": options}))
