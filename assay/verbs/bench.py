"""Time implementations side by side, each checked first."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

if TYPE_CHECKING:
    from assay.verbs._regression import Earlier

QUICK = "sdpa,eager,flash2_torch"  # what a quick bench compares where nothing is named
EXAMPLE = "Example: assay bench my_attention.py --vs sdpa --workload b1_h8_s1024_d64"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(bench)
    return app


def bench(
    names: flags.Names = None,
    versus: Annotated[
        str | None,
        typer.Option(
            "--vs",
            autocompletion=flags.completion.implementations,
            help="Implementations to compare with, comma between.",
        ),
    ] = None,
    itself: Annotated[
        bool, typer.Option("--aa", help="Measure each against itself: how noisy is this machine?")
    ] = False,
    comparisons: Annotated[
        int | None,
        typer.Option(
            "--comparisons", min=10, help="With --aa or --against: comparisons in each process."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="An earlier run: exit code 1 if something is slower now."),
    ] = None,
    impl: flags.Impl = None,
    workload: flags.Workload = None,
    probe: flags.Probe = None,
    device: flags.Device = None,
    dtype: flags.Dtype = None,
    seed: flags.Seed = None,
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.StudyOut = None,
    plugins: flags.Plugins = None,
    quick: flags.Quick = False,
    isolated_judge: flags.IsolatedJudge = False,
    fresh: flags.Fresh = False,
    as_json: flags.Json = False,
    verbose: flags.Verbose = False,
    dry_run: flags.DryRun = False,
) -> None:
    from assay import host
    from assay.errors import BadInput
    from assay.studies.worker_environment import begin_frameworks
    from assay.verbs import _decoding, _regression
    from assay.verbs._running import run_adhoc

    if versus is not None and not (names or impl):
        raise BadInput(
            f"--vs {versus} says what to compare with, and nothing is named that is compared; name "
            f"it first, such as: assay bench my_attention.py --vs {versus}"
        )
    # The first implementation is the one that ratios are taken against.
    typed = (("--vs", versus), *(("", name) for name in names or ()), ("--impl", impl))
    compared = tuple((flag, text) for flag, text in typed if text is not None)
    decoders = _decoding.chosen([text for _, text in compared])
    if not (dry_run or config or sets or decoders):  # these may change what is imported, and how
        begin_frameworks([name for _, text in compared for name in text.split(",")], device)
    settings = flags.as_settings(
        impl=None if decoders else compared,
        workload=workload,
        probe=probe,
        device=device,
        dtype=dtype,
        seed=seed,
        quick=quick,
    )
    if decoders:
        refused = {"--aa": itself, "--comparisons": comparisons, "--against": against}
        refused |= {"--isolated-judge": isolated_judge}
        _decoding.refuse_flags(refused, "noise is measured with implementations of sequences")
        settings += [_decoding.setting(compared)]
        settings += _decoding.QUICK if quick and not workload else ()
    if comparisons and not (itself or against or decoders or config or sets):
        raise BadInput("--comparisons says how noise is measured; add --aa or --against RUN")
    if quick and not (names or impl or config or against):
        settings = [f"IMPLEMENTATIONS={QUICK}", *settings]
    settings += flags.typed_settings({"NOISE_COMPARISONS": ("--comparisons", comparisons)})
    earlier = _regression.Earlier.read(against) if against else None
    # Each implementation is checked on the very workload before it is timed; quick, that is all.
    stages = ["host", "bench"] if quick else ["host", "suite", "bench"]
    if decoders:
        stages = ["host", "decode"] if quick else ["host", "decode_suite", "decode"]
    elif itself:
        stages = ["check", "noise"]
    elif earlier:
        _refuse_unnamed(earlier, against, names or impl)
        stages += ["noise"]
        settings = [*earlier.settings(), "NOISE_COMPARISONS=10", *settings]
    if isolated_judge:
        settings += ["ISOLATED_JUDGE=y"]
        stages = list(dict.fromkeys([*stages[:-1], "check", stages[-1]]))
    of_its_own = config and not itself and not earlier  # a defconfig says its stages
    stage_settings = [] if of_its_own else [f"STAGES={','.join(stages)}", "SUITE_QUICK=y"]
    study = flags.load_study(
        config=config, sets=sets, plugins=plugins, flags=[*stage_settings, *settings]
    )

    shown = {"as_json": as_json, "verbose": verbose, "dry_run": dry_run}
    if earlier:
        earlier.require_device(study, host.inspect(commit=False))
        shown["judge"] = partial(earlier.judge, aloud=as_json)
        shown["show"] = partial(earlier.show, verbose=verbose)
    reuse = not (fresh or of_its_own)
    finish(run_adhoc("bench", study, out=out, **shown, reuse=reuse))


def _refuse_unnamed(earlier: "Earlier", against: Path, named: object) -> None:
    """A run may be anyone's, so files that it measured are run only where they are named again."""
    from assay.errors import BadInput
    from assay.records.named_code import plugins_named_by

    files = [str(path) for path in plugins_named_by(earlier.run)]
    if files and not named:
        raise BadInput(
            f"--against {against}: it measured code of its own ({', '.join(files)}); name what is "
            f"to be measured: assay bench {' '.join(files)} --against {against}"
        )
