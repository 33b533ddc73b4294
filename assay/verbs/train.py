"""Train models of the GPT-2 family side by side, with several seeds each, and compare them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

if TYPE_CHECKING:
    from assay.records.schema import Record
    from assay.studies.study import Study

EXAMPLE = (
    "Example: assay train GPT2,GPT2_MLA --steps 100 --set TRAIN_WIDTH=128 --set TRAIN_LAYERS=2 "
    "--set TRAIN_HEADS=2 --set TRAIN_LENGTH=128 --set TRAIN_BATCH=8"
)
LONGEST_CELL_S = 604800  # a run has limits of its own


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(train)
    return app


def train(
    models: Annotated[
        str | None,
        typer.Argument(help="Variants and steps, comma between; the first is the baseline."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Steps of each run; 1 is a quick try.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="Seeds, comma between (0,1,2).")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="stdlib (default), folder, shakespeare, ...")
    ] = None,
    place: Annotated[
        str | None, typer.Option("--place", help="The folder or file of a local dataset.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="bpe (default), byte, gpt2.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="float32 (default) or bfloat16 by autocast.")
    ] = None,
    device: flags.Device = None,
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.StudyOut = None,
    plugins: flags.Plugins = None,
    as_json: flags.Json = False,
    dry_run: flags.DryRun = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Train nothing, but show a run in the terminal while it goes or after: the folder "
            "of a run or study in place of MODELS, or the newest run. Ctrl-C leaves it. "
            "Example: assay train --watch results/train",
        ),
    ] = False,
) -> None:
    if watch:
        others = {
            "--steps": steps, "--seeds": seeds, "--dataset": dataset, "--place": place,
            "--tokenizer": tokenizer, "--dtype": dtype, "--device": device, "--config": config,
            "--set": sets, "--plugins": plugins, "--dry-run": dry_run,
        }  # fmt: skip
        given = [flag for flag, value in others.items() if value not in (None, [], False)]
        _watch(models, out, as_json, contradicting=given)
        return
    from assay.verbs._running import run_adhoc

    named = {
        "MODELS": ("", models),
        "TRAIN_STEPS": ("--steps", steps),
        "TRAIN_SEEDS": ("--seeds", seeds),
        "TRAIN_DATASET": ("--dataset", dataset),
        "TRAIN_PLACE": ("--place", place),
        "TRAIN_TOKENIZER": ("--tokenizer", tokenizer),
        "TRAIN_DTYPE": ("--dtype", dtype),
    }
    settings = flags.typed_settings(named)
    if config is None:
        settings = [
            "STAGES=host,models,train",
            f"CELL_TIMEOUT_S={LONGEST_CELL_S}",
            "MODELS=GPT2",
            *settings,
        ]
    settings += flags.as_settings(device=device)
    study = flags.load_study(config=config, sets=sets, plugins=plugins, flags=settings)
    if dry_run:
        _tell_missing(study)
    judge = _trained_code
    finish(run_adhoc("train", study, out=out, as_json=as_json, dry_run=dry_run, judge=judge))


def _tell_missing(study: "Study") -> None:
    """Name packages that the data needs and that are not here, for which every arm is skipped."""
    import sys

    from assay import plugins

    for kind, name in ("datasets", study.train_dataset), ("tokenizers", study.train_tokenizer):
        if missing := plugins.find(kind, name, study.plugin_folders).missing:
            how = plugins.how_to_install(missing)
            needs = f"needs {', '.join(missing)}, not installed here: {how}"
            print(f"assay: {kind}/{name} {needs}; nothing would be trained", file=sys.stderr)


def _watch(
    path: str | None, out: Path | None, as_json: bool, *, contradicting: Sequence[str]
) -> None:
    """Show a run; flags that say what to train have no meaning beside it."""
    from assay.errors import BadInput
    from assay.reports.monitor import screen

    if contradicting:
        raise BadInput(
            f"--watch shows a run and trains nothing, so it takes no {', '.join(contradicting)}; "
            "give a run's folder, --out or --json beside it, or leave out --watch"
        )
    folder, results = Path(path) if path else None, out or flags.RESULTS
    if as_json:
        print(screen.snapshot_json(folder, results))
    else:
        screen.show(folder, results)


def _trained_code(records: "Sequence[Record]") -> int:
    """Exit code of a training: nothing holds where nothing was trained."""
    from assay.errors import CANNOT_RUN_HERE, DOES_NOT_HOLD, HOLDS

    ends = [r for r in records if r.stage == "train" and r.status in ("refused", "skipped")]
    if any(record.status == "refused" for record in ends):
        return DOES_NOT_HOLD
    return CANNOT_RUN_HERE if ends else HOLDS
