"""Hold implementations against a float64 reference."""

from typing import Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

EXAMPLE = "Example: assay check my_attention.py --dtype float32,bfloat16"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(check)
    return app


def check(
    names: Annotated[list[str] | None, typer.Argument(help="Names or files; or all.")] = None,
    impl: flags.Impl = None,
    workload: flags.Workload = None,
    probe: flags.Probe = None,
    device: flags.Device = None,
    dtype: flags.Dtype = None,
    seed: flags.Seed = None,
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.Out = flags.RESULTS,
    plugins: flags.Plugins = None,
    quick: flags.Quick = False,
    as_json: flags.Json = False,
    dry_run: flags.DryRun = False,
) -> None:
    from assay.verbs._adhoc import run_adhoc

    settings = flags.as_settings(
        impl=",".join([*(names or ()), *([impl] if impl else ())]) or None,
        workload=workload,
        probe=probe,
        device=device,
        dtype=dtype,
        seed=seed,
        quick=quick,
    )
    study = flags.load_study(
        config=config,
        sets=sets,
        plugins=plugins,
        flags=["STAGES=check", *(() if config else ("LENGTHS=1,63,113/255,256",)), *settings],
    )
    finish(run_adhoc("check", study, out=out, as_json=as_json, dry_run=dry_run))
