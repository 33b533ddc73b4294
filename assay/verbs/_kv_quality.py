"""The subcommands of kv that run a model through its caches: quality, and compare with time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.errors import CANNOT_RUN_HERE, HOLDS
from assay.verbs import _flags as flags
from assay.verbs._running import finish

if TYPE_CHECKING:
    from assay.records.schema import Record
    from assay.studies.study import Study

DENSE = "dense"
QUALITY = "Example: assay kv quality smollm2 --layout dense,k16v8,int4 --text book.txt"
COMPARE = "Example: assay kv compare GPT2,GPT2_MLA,GPT2_MLA_KV --layout k16v8 --tokens 256"

CachedModelName = Annotated[
    str | None,
    typer.Argument(
        help="smollm2, random:llama, a folder of transformers, owner/name on the hub, GPT2 or a "
        "checkpoint of a variant; several with a comma between."
    ),
]
Layouts = Annotated[
    str | None, typer.Option("--layout", help="Layouts, comma between; by default the controls.")
]
Residual = Annotated[
    int | None, typer.Option("--residual", min=0, help="Newest tokens that are kept whole.")
]
Text = Annotated[Path | None, typer.Option("--text", help="A file; by default Python's own help.")]
Tokens = Annotated[
    int | None, typer.Option("--tokens", min=2, help="Tokens that are scored (2048).")
]
Window = Annotated[int | None, typer.Option("--window", min=2, help="Tokens of a window (512).")]
Needles = Annotated[int | None, typer.Option("--needles", min=0, help="Needles to search (8).")]
ModelDtype = Annotated[
    str | None, typer.Option("--dtype", help="Of the model: float32 (default), float16, bfloat16.")
]


def quality(
    model: CachedModelName = None,
    layout: Layouts = None,
    residual: Residual = None,
    text: Text = None,
    tokens: Tokens = None,
    window: Window = None,
    needles: Needles = None,
    dtype: ModelDtype = None,
    device: flags.Device = None,
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.StudyOut = None,
    plugins: flags.Plugins = None,
    as_json: flags.Json = False,
    dry_run: flags.DryRun = False,
) -> None:
    """Read a text through each layout and say what it does to the model, proofs first."""
    settings = _settings(model, layout, residual, text, tokens, window, needles, dtype)
    study = _study(["cache_quality"], settings, device, config, sets, plugins)
    _run("kv-quality", study, out=out, as_json=as_json, dry_run=dry_run)


def compare(
    model: CachedModelName = None,
    layout: Layouts = None,
    residual: Residual = None,
    text: Text = None,
    tokens: Tokens = None,
    window: Window = None,
    needles: Needles = None,
    decode: Annotated[
        int | None, typer.Option("--decode", min=1, help="Tokens that are timed, one by one.")
    ] = None,
    dtype: ModelDtype = None,
    device: flags.Device = None,
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.StudyOut = None,
    plugins: flags.Plugins = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Name the layouts and models there are, and end.")
    ] = False,
    as_json: flags.Json = False,
    dry_run: flags.DryRun = False,
) -> None:
    """Decode through each layout, token by token: time, bytes and quality in one table."""
    if listed:
        _list(as_json=as_json)
        return
    settings = _settings(model, layout, residual, text, tokens, window, needles, dtype)
    settings += flags.typed_settings({"CACHE_DECODE": ("--decode", decode)})
    study = _study(["cache_quality", "cache_decode"], settings, device, config, sets, plugins)
    _run("kv-compare", study, out=out, as_json=as_json, dry_run=dry_run)


def _settings(
    model: str | None,
    layout: str | None,
    residual: int | None,
    text: Path | None,
    tokens: int | None,
    window: int | None,
    needles: int | None,
    dtype: str | None,
) -> list[str]:
    """The SYMBOL=VALUE entries that the flags stand for."""
    stated = {
        "MODEL": model, "LAYOUT": layout, "RESIDUAL": residual, "TEXT": text, "TOKENS": tokens,
        "WINDOW": window, "NEEDLES": needles, "DTYPE": dtype,
    }  # fmt: skip
    symbols = {"LAYOUT": "CACHE_LAYOUTS"}
    return flags.typed_settings({
        symbols.get(name, f"CACHE_{name}"): ("" if name == "MODEL" else f"--{name.lower()}", value)
        for name, value in stated.items()
    })  # fmt: skip


def _study(
    stages: list[str],
    settings: list[str],
    device: str | None,
    config: Path | None,
    sets: list[str] | None,
    plugins: list[Path] | None,
) -> "Study":
    """The study of some stages; a model or a text that cannot be read is refused before a run."""
    from assay.errors import BadInput
    from assay.models.pretrained import catalog, sample_text
    from assay.models.pretrained.huggingface import require_positions
    from assay.studies import lists

    settings = [f"STAGES={','.join(stages)}", *flags.as_settings(device=device), *settings]
    study = flags.load_study(config=config, sets=sets, plugins=plugins, flags=settings)
    if not study.cache_model:
        raise BadInput("no model is named; give one, such as smollm2, random:llama or GPT2")
    sample_text.read_given(study.cache_text or None)
    for name in lists.entries(study.cache_model):
        if name.endswith(".py"):
            raise BadInput(
                f"{name} is no model; a layout of your own is given with --layout {name}"
            )
        if not name.startswith("GPT2") and not name.endswith(".safetensors"):
            catalog.require(name)
        require_positions(name, study.cache_window)
    return study


def _run(verb: str, study: "Study", *, out: Path | None, as_json: bool, dry_run: bool) -> None:
    from assay.verbs._running import run_adhoc

    def judge(records: "Sequence[Record]") -> int:
        """3 where none of the layouts that were asked for could be read, or decoded."""
        from assay.reports.model_headlines import unread_caches

        _, no_cache = unread_caches(records)
        return CANNOT_RUN_HERE if no_cache else HOLDS

    finish(run_adhoc(verb, study, out=out, as_json=as_json, dry_run=dry_run, judge=judge))


def _list(*, as_json: bool) -> None:
    from assay import plugins
    from assay.models.pretrained import catalog
    from assay.reports.table import Table
    from assay.verbs._running import tell

    rows = [("layout", name, plugin.summary) for name, plugin in plugins.listing("layouts").items()]
    rows += [("model", name, "of transformers") for name in catalog.names()]
    rows.append(("model", "GPT2", "and its variants, or a checkpoint of one: assay list parts"))
    table = Table(title="What can be compared", columns=("kind", "name", "about"), rows=tuple(rows))
    tell(table, as_json=as_json)
