"""Score a model on evals: the perplexity of a text, HellaSwag, or a task of lm-eval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

if TYPE_CHECKING:
    from assay.records.schema import Record

EXAMPLE = "Example: assay eval smollm2 --eval hellaswag+file=questions.jsonl"

LONGEST_CELL_S = 604800  # ten thousand questions take hours on a CPU


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(evaluate)
    return app


def evaluate(
    models: Annotated[
        str | None,
        typer.Argument(
            help="smollm2, random:llama, a folder of transformers, or the folder of a training "
            "run's saved state; comma between, the first is the baseline."
        ),
    ] = None,
    evals: Annotated[
        list[str] | None,
        typer.Option("--eval", help="NAME+file=PATH+option=value; repeatable."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="float32 (default), float16 or bfloat16.")
    ] = None,
    device: flags.Device = None,
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.StudyOut = None,
    plugins: flags.Plugins = None,
    as_json: flags.Json = False,
    dry_run: flags.DryRun = False,
) -> None:
    from assay.verbs._running import run_adhoc

    named = {
        "EVAL_MODELS": ("", models),
        "TRAIN_EVALS": ("--eval", ",".join(evals) if evals else None),
        "EVAL_DTYPE": ("--dtype", dtype),
    }
    settings = ["STAGES=evals", f"CELL_TIMEOUT_S={LONGEST_CELL_S}", *flags.typed_settings(named)]
    settings += flags.as_settings(device=device)
    study = flags.load_study(config=config, sets=sets, plugins=plugins, flags=settings)
    judge = _scored_code
    finish(run_adhoc("eval", study, out=out, as_json=as_json, dry_run=dry_run, judge=judge))


def _scored_code(records: "Sequence[Record]") -> int:
    """Exit code where nothing failed: a model or an eval that was skipped could not run here."""
    from assay.errors import CANNOT_RUN_HERE, HOLDS

    skipped = any(r.stage == "evals" and r.status == "skipped" for r in records)
    return CANNOT_RUN_HERE if skipped else HOLDS
