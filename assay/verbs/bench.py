"""Time implementations side by side, each checked first."""

from typing import Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

EXAMPLE = "Example: assay bench my_attention.py --vs sdpa --workload b1_h8_s1024_d64"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(bench)
    return app


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Names or files; or all.")] = None,
    versus: Annotated[
        str | None, typer.Option("--vs", help="Implementations to compare with, comma between.")
    ] = None,
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
        # The first implementation is the one that ratios are taken against.
        impl=",".join(filter(None, [versus, *(names or ()), impl])) or None,
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
        flags=["STAGES=suite,check,bench", "SUITE_QUICK=y", *settings],
    )
    finish(run_adhoc("bench", study, out=out, as_json=as_json, dry_run=dry_run))
