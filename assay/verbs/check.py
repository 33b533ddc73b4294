"""Hold implementations against a float64 reference, or models against the gates."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

if TYPE_CHECKING:
    from assay.studies.config_file import Typed
    from assay.studies.study import Study

EXAMPLE = "Example: assay check my_attention.py --quick"
DTYPES = "float32,float16,bfloat16"
# What the isolated judge looks at where nothing is named, beside the suite: the cases of that are
# made in the process of the implementation.
ISOLATED_WORKLOADS = ",".join(
    f"{shape}_{dtype}"
    for dtype in DTYPES.split(",")
    for shape in ("b1_h2_s64_d64_causal", "b2_h4_kv2_q113_k300_d64_causal", "b1_h2_s130_d32_full")
)


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(check)
    return app


def check(
    names: flags.Names = None,
    framework: Annotated[
        str | None,
        typer.Option("--framework", help="All implementations of a framework: torch, triton, jax."),
    ] = None,
    cases: Annotated[
        int | None, typer.Option("--cases", min=1, help="Random cases for each implementation.")
    ] = None,
    budget_s: Annotated[
        int | None, typer.Option("--budget-s", min=1, help="Seconds for each implementation.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            help="Models instead: all, fast, named, ratio, pairs, steps, variants, files of yours.",
        ),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="With --models: a few that between them have every part.")
    ] = False,
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
    as_json: flags.Json = False,
    verbose: flags.Verbose = False,
    dry_run: flags.DryRun = False,
) -> None:
    if models is not None or fast:
        others = {
            "names": names,
            "--impl": impl,
            "--framework": framework,
            "--cases": cases,
            "--budget-s": budget_s,
            "--workload": workload,
            "--probe": probe,
            "--device": device,
            "--dtype": dtype,
            "--seed": seed is not None,
            "--config": config,
            "--quick": quick,
            "--isolated-judge": isolated_judge,
        }
        chosen = _chosen_models(models, fast=fast)
        _refuse_attention_flags(chosen, others)
        study = flags.load_study(
            config=None,
            sets=sets,
            plugins=plugins,
            flags=["STAGES=models", *flags.typed_settings({"MODELS": ("--models", chosen)})],
        )
        finish(_check_models(study, out=out, as_json=as_json, dry_run=dry_run))
    from assay.verbs import _decoding
    from assay.verbs._running import run_adhoc

    shared = {"workload": workload, "probe": probe, "device": device, "dtype": dtype}
    shared |= {"seed": seed, "quick": quick}
    shown = {"as_json": as_json, "verbose": verbose, "dry_run": dry_run}
    typed = (
        *(("", name) for name in names or ()),
        *((("--impl", impl),) if impl is not None else ()),
    )
    if _decoding.chosen([text for _, text in typed]):
        others = {"--framework": framework, "--cases": cases, "--isolated-judge": isolated_judge}
        _decoding.refuse_flags(others, "random cases and frameworks are those of sequences")
        _refuse_unknown_probe(probe, plugins or (), stage=_decoding.SUITE)
        kernels = _decoding.setting(typed)
        settings = _decoding.check_settings(kernels, workload, probe, plugins or ())
        settings += [] if config else [f"DTYPES={DTYPES}"]
        settings += flags.typed_settings({"SUITE_BUDGET_S": ("--budget-s", budget_s)})
        settings += flags.as_settings(**shared)
        study = flags.load_study(config=config, sets=sets, plugins=plugins, flags=settings)
        _refuse_no_probe(study, _decoding.known_probes(study))
        judge = _decoding.check_code
        finish(run_adhoc("check", study, out=out, **shown, judge=judge))
    _refuse_unknown_probe(probe, plugins or (), stage="check")
    settings = flags.as_settings(impl=_chosen(typed, framework, plugins or ()), **shared)
    settings += flags.typed_settings({
        "SUITE_CASES": ("--cases", cases), "SUITE_BUDGET_S": ("--budget-s", budget_s)
    })  # fmt: skip
    # Workloads that are named are what is asked about; else the suite makes its own.
    own_cases = _make_own_cases(probe, plugins or ())
    stage = "check" if config or (workload and not own_cases) else "suite"
    if isolated_judge:
        settings += ["ISOLATED_JUDGE=y"]
        settings += [] if workload or config else [f"WORKLOADS={ISOLATED_WORKLOADS}"]
        stage = "suite,check" if stage == "suite" else stage
    study = flags.load_study(
        config=config,
        sets=sets,
        plugins=plugins,
        flags=[f"STAGES={stage}", *(() if config else (f"DTYPES={DTYPES}",)), *settings],
    )
    _refuse_no_probe(study, _known_probes(study))
    finish(run_adhoc("check", study, out=out, **shown))


def _chosen_models(models: str | None, *, fast: bool) -> str:
    """The list of models that --models and --fast stand for."""
    from assay.errors import BadInput

    if not fast:
        return models or ""
    if models not in (None, "all", "fast"):
        raise BadInput(f"--fast chooses among all; --models {models} has already chosen")
    return "fast"


def _refuse_attention_flags(models: str, values: Mapping[str, Any]) -> None:
    from assay.errors import BadInput

    if names := [name for name, value in values.items() if value]:
        raise BadInput(
            f"--models {models} examines models, tiny and on the CPU, and takes no "
            f"{', '.join(names)}: that is for implementations of attention; leave one of them out"
        )


def _check_models(study: "Study", *, out: Path | None, as_json: bool, dry_run: bool) -> int:
    from assay.reports.tables.models import selection_table, show_models
    from assay.studies.stages.models import selected
    from assay.verbs._running import run_adhoc, tell

    selection = selected(study)
    for warning in selection.warnings:
        print(f"assay: {warning}", file=sys.stderr)
    if dry_run:
        rows = [(model.name, model.steps, model.tags) for model in selection.models]
        tell(selection_table(rows), as_json=as_json)
        return 0
    return run_adhoc("check", study, out=out, as_json=as_json, dry_run=False, show=show_models)


def _make_own_cases(probes: str | None, folders: Sequence[Path]) -> bool:
    """True where some of the probes that are named run in the suite only, on cases of its kind."""
    from assay import plugins

    known = plugins.listing("probes", plugins.check_folders(folders))
    named = [known[name] for name in (probes or "").split(",") if name in known]
    return any("cases" in p.functions and not p.literals["EVERY_WORKLOAD"] for p in named)


def _refuse_unknown_probe(probes: str | None, folders: Sequence[Path], *, stage: str) -> None:
    """Refuse a name that no probe has, and give those of correctness, not of costs or captures."""
    from assay import plugins
    from assay.errors import BadInput, unknown_name
    from assay.verbs import _decoding

    known = plugins.listing("probes", plugins.check_folders(folders))
    wanted = [name for name, plugin in known.items() if plugin.literals["STAGE"] == stage]
    wanted += _decoding.CHECK_PROBES.split(",") if stage == _decoding.SUITE else []
    for name in (probes or "").split(","):
        plain = name.removeprefix("probes/")
        if plain and plain not in known and not plain.endswith(".py") and not Path(name).is_dir():
            raise BadInput(
                f"--probe {name}: {unknown_name('probe', plain, wanted)} A file is named by its "
                "path (ending in .py), a folder of your own by --plugins DIR"
            )


def _known_probes(study: "Study") -> list[str]:
    """The probes of correctness."""
    from assay import plugins

    probes = plugins.listing("probes", study.plugin_folders)
    return [name for name, probe in probes.items() if probe.literals["STAGE"] == "check"]


def _refuse_no_probe(study: "Study", known: Sequence[str]) -> None:
    """A check that checks nothing must not hold."""
    from assay.errors import BadInput

    if not set(known) & set(study.probes):
        chosen = ", ".join(study.probes)
        raise BadInput(f"{chosen} says nothing of correctness; wanted some of {', '.join(known)}")


def _chosen(typed: "Typed", framework: str | None, folders: Sequence[Path]) -> "str | Typed":
    """The implementations asked for, as a study lists them."""
    if framework is None:
        return typed
    from assay import plugins
    from assay.errors import BadInput, unknown_name

    named = ",".join(text for _, text in typed)
    if named not in ("", "all"):
        raise BadInput(f"--framework {framework} chooses among all; {named} is already chosen")
    known = plugins.listing("sequence", plugins.check_folders(folders))
    chosen = [name for name, plugin in known.items() if framework in plugin.requires]
    if not chosen:
        packages = sorted({package for plugin in known.values() for package in plugin.requires})
        raise BadInput(f"--framework {framework}: {unknown_name('framework', framework, packages)}")
    return ",".join(chosen)
