"""Run implementations on captured inputs: check, output of the model, speed and memory."""

from pathlib import Path
from typing import Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

EXAMPLE = "Example: assay replay captures/smollm2 layer=3 --impl all"
STAGES = "host,check,bench"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(replay)
    return app


def replay(
    path: Annotated[Path, typer.Argument(help="A store of captures.")],
    records: Annotated[
        str | None,
        typer.Argument(help="Some of its records: a name, a pattern, or step=0,layer=3:5."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            "--scale",
            help="Factor of the scores, of records that do not say theirs; 1 where q is scaled "
            "before.",
        ),
    ] = None,
    impl: flags.Impl = None,
    probe: flags.Probe = None,
    device: flags.Device = None,
    seed: flags.Seed = None,
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.StudyOut = None,
    plugins: flags.Plugins = None,
    quick: flags.Quick = False,
    fresh: flags.Fresh = False,
    as_json: flags.Json = False,
    verbose: flags.Verbose = False,
    dry_run: flags.DryRun = False,
) -> None:
    from assay.captures.inputs import workload_entry
    from assay.verbs._running import run_adhoc

    settings = flags.as_settings(
        impl=impl,
        workload=workload_entry(path, records, scale),
        probe=probe,
        device=device,
        seed=seed,
        quick=quick,
    )
    stages = [] if config else [f"STAGES={STAGES}"]
    study = flags.load_study(config=config, sets=sets, plugins=plugins, flags=[*stages, *settings])
    shown = {"as_json": as_json, "verbose": verbose, "dry_run": dry_run}
    finish(run_adhoc("replay", study, out=out, **shown, reuse=not (fresh or config)))
