"""Hold implementations against a float64 reference, or models against the gates."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish

if TYPE_CHECKING:
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
    names: Annotated[list[str] | None, typer.Argument(help=flags.NAMES)] = None,
    framework: Annotated[
        str | None,
        typer.Option("--framework", help="Only those of all that need it: torch, triton, jax."),
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
        bool, typer.Option("--fast", help="With --models: few, that have every part between them.")
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
            config=None, sets=sets, plugins=plugins, flags=["STAGES=models", f"MODELS={chosen}"]
        )
        finish(_check_models(study, out=out, as_json=as_json, dry_run=dry_run))
    from assay.verbs import _decoding
    from assay.verbs._running import run_adhoc

    shared = {"workload": workload, "probe": probe, "device": device, "dtype": dtype}
    shared |= {"seed": seed, "quick": quick}
    named = [*(names or ()), *([impl] if impl else ())]
    if decoders := _decoding.chosen(named):
        others = {"--framework": framework, "--cases": cases, "--isolated-judge": isolated_judge}
        _decoding.refuse_flags(others, "random cases and frameworks are those of sequences")
        settings = _decoding.check_settings(decoders, workload, probe, plugins or ())
        settings += [] if config else [f"DTYPES={DTYPES}"]
        settings += [f"SUITE_BUDGET_S={budget_s}"] if budget_s else []
        settings += flags.as_settings(**shared)
        study = flags.load_study(config=config, sets=sets, plugins=plugins, flags=settings)
        _refuse_no_probe(study, _decoding.known_probes(study))
        judge = _decoding.check_code
        finish(run_adhoc("check", study, out=out, as_json=as_json, dry_run=dry_run, judge=judge))
    settings = flags.as_settings(impl=_chosen(named, framework, plugins or ()), **shared)
    settings += [f"SUITE_CASES={cases}"] if cases else []
    settings += [f"SUITE_BUDGET_S={budget_s}"] if budget_s else []
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
    finish(run_adhoc("check", study, out=out, as_json=as_json, dry_run=dry_run))


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


def _chosen(names: list[str], framework: str | None, folders: Sequence[Path]) -> str | None:
    """The implementations asked for, as a study lists them."""
    if framework is None:
        return ",".join(names) or None
    from assay import plugins
    from assay.errors import BadInput

    named = ",".join(names)
    if named not in ("", "all"):
        raise BadInput(f"--framework {framework} chooses among all; {named} is already chosen")
    known = plugins.listing("sequence", plugins.check_folders(folders))
    chosen = [name for name, plugin in known.items() if framework in plugin.requires]
    if not chosen:
        packages = sorted({package for plugin in known.values() for package in plugin.requires})
        raise BadInput(
            f"no implementation needs {framework!r}; wanted one of {', '.join(packages)}"
        )
    return ",".join(chosen)
