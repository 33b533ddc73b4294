"""Plan, run, look at, resume and freeze a study."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish, tell

if TYPE_CHECKING:
    from assay.records.run import RunFolder

RunSets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SYMBOL=VALUE",
        help="A setting over the run's own, such as LENGTHS=512,1024; repeatable.",
    ),
]
RunArgument = Annotated[
    Path | None, typer.Argument(help="The run's folder; the newest below --out where not given.")
]


def command() -> typer.Typer:
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        help=f"{__doc__} Example: assay study run --config quickstart",
    )
    app.command()(plan)
    app.command()(run)
    app.command()(status)
    app.command()(resume)
    app.command()(freeze)
    return app


def plan(
    config: flags.Config = None,
    sets: flags.Set = None,
    plugins: flags.Plugins = None,
    as_json: flags.Json = False,
) -> None:
    """Show every cell a study would run here. Example: assay study plan --config quickstart"""
    from assay.verbs._running import show_plan

    study = flags.load_study(config=config, sets=sets, plugins=plugins)
    show_plan(study, Path(study.results), as_json=as_json)


def run(
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.StudyOut = None,
    plugins: flags.Plugins = None,
    keep_going: Annotated[
        bool,
        typer.Option("--continue", help="Go on with the newest run of this very configuration."),
    ] = False,
    extend: Annotated[
        Path | None,
        typer.Option(
            "--extend",
            metavar="RUN",
            help="Start from an earlier run, with --set over its settings: a new run that measures "
            "only the cells that RUN does not have. Trainings are not taken over.",
        ),
    ] = None,
    trust: flags.TrustPlugins = False,
    as_json: flags.Json = False,
    verbose: flags.Verbose = False,
    dry_run: flags.DryRun = False,
    single: Annotated[
        bool,
        typer.Option(
            "--one-step",
            help="One real step of every implementation, layer and model, and no record.",
        ),
    ] = False,
) -> None:
    """Run a study from its start. Example: assay study run --config quickstart --set ROUNDS=50"""
    from assay import host
    from assay.records.run import open_run
    from assay.studies import session
    from assay.verbs import _running

    if extend:
        _refuse_beside_extend(
            sets, {"--config": config, "--continue": keep_going, "--one-step": single}
        )
        earlier_run = open_run(extend)[1]
        study = session.study_of(
            earlier_run, sets=sets or (), plugin_folders=plugins or (), trust=trust
        )
    else:
        study = flags.load_study(config=config, sets=sets, plugins=plugins)
    out = out or Path(study.results)
    if dry_run:
        _running.show_plan(study, out, as_json=as_json, extends=extend)
        return
    if single:
        from assay.verbs._one_step import ChosenStudy, one_step

        chosen = ChosenStudy(config=config, sets=sets or (), plugins=plugins or (), out=out)
        finish(one_step(study, chosen, as_json=as_json))
    earlier = session.latest(out, study) if keep_going else None
    here = host.inspect()
    if extend:
        active = session.extended(extend, study, here, out)
    elif earlier:
        active = session.resumed(earlier, study, here)
    else:
        active = session.started(study, here, out, study.study)
    finish(_running.run(active, as_json=as_json, verbose=verbose))


def _refuse_beside_extend(sets: Sequence[str] | None, others: Mapping[str, object]) -> None:
    from assay.errors import BadInput

    if given := [flag for flag, value in others.items() if value]:
        raise BadInput(f"--extend takes the settings of a run, so leave out {' and '.join(given)}")
    if not sets:
        raise BadInput(
            "--extend RUN adds to a run; say what, such as --set LENGTHS=1024,2048. A run as it "
            "is goes on with: assay study resume RUN"
        )


def status(
    path: RunArgument = None,
    out: flags.Out = flags.RESULTS,
    plugins: flags.Plugins = None,
    trust: flags.TrustPlugins = False,
    as_json: flags.Json = False,
    sets: RunSets = None,
) -> None:
    """Show what of a run is done and at work, and what resuming would run.

    Example: assay study status
    """
    from assay.records import run as runs
    from assay.records.named_code import plugins_named_by, tasks_named_by

    folder, record = runs.open_run(path or runs.newest_run(out))
    named = [] if trust or plugins or sets else plugins_named_by(record)
    if named and not (record.plugins or tasks_named_by(record)):
        _show_recorded(folder, named, as_json=as_json)
    else:
        _show_planned(folder.path, out, plugins, trust, as_json, sets)


def _show_planned(
    path: Path | None,
    out: Path,
    plugins: Sequence[Path] | None,
    trust: bool,
    as_json: bool,
    sets: Sequence[str] | None,
) -> None:
    """The cells of a run as its study plans them, for which the files that it names are loaded."""
    from assay import host
    from assay.records import run as runs
    from assay.records.identity import current
    from assay.records.verdicts import skipped_cells
    from assay.reports.table import Table
    from assay.studies import plan as plans
    from assay.studies import progress, session
    from assay.studies.earlier import EarlierRecords
    from assay.verbs._progress import StageState, stages_table

    folder, record = runs.open_run(path or runs.newest_run(out))
    here, goes = host.inspect(), folder.is_held()
    rows, earlier, stages = [], EarlierRecords(), []
    study = session.study_of(record, sets=sets or (), plugin_folders=plugins or (), trust=trust)
    hosts = plans.hosts_of(study, here)
    for stage in plans.make(study, here):
        before = runs.stage_records(folder, stage.name)
        running = progress.at_work(folder.stage(stage.name)) if goes else []
        places = {cell.name: f"at work: {cell.place}".rstrip(": ") for cell in running}
        idle = {name for each in skipped_cells(current(before)) for name in each.reasons}
        states = []
        for state in plans.states(stage, here, hosts, before=before, earlier=earlier):
            name, why = state.planned.cell.name, state.why_due
            ended = "skipped" if name in idle else "done"
            states.append(places.get(name) or (f"to do: {why}" if why else ended))
            rows.append((stage.name, name, states[-1]))
        counted = len(states), sum(state not in ("done", "skipped") for state in states)
        stages.append(StageState(stage.name, *counted, current(before), running))
        earlier.extend(stages[-1].records)
    done = sum(row[2] == "done" for row in rows)
    due = sum(stage.due for stage in stages)
    skipped = [str(each) for each in skipped_cells(earlier)]
    trusted = " --trust-plugins" if study.plugin_folders else ""
    command = f"assay study resume {folder.path}{trusted}"
    waiting = "" if goes or not due else f"go on with: {command}"
    if not as_json:
        state = "running" if goes else waiting or f"nothing is left to do{' here' * bool(skipped)}"
        print(f"{folder.path}: {done} of {len(rows)} cells done; {'; '.join([*skipped, state])}")
        tell(stages_table("Running" if goes else "Not running", stages), as_json=False)
    table = Table(title="Cells", columns=("stage", "cell", "state"), rows=tuple(rows))
    tell(table, as_json=as_json)


def _show_recorded(folder: "RunFolder", named: Sequence[Path], *, as_json: bool) -> None:
    """The stages of a run by its records alone: what files it names are not loaded for that."""
    from assay.reports.contents import read_contents
    from assay.reports.run_tables import stage_endings

    if not as_json:
        command = f"assay study resume {folder.path} --trust-plugins"
        files, state = ", ".join(map(str, named)), "running" if folder.is_held() else "not running"
        rest = f"what is left is shown by {command} --dry-run, which loads {files}"
        print(f"{folder.path}: {state}; {rest}")
    tell(stage_endings(read_contents(folder).stages), as_json=as_json)


def resume(
    path: RunArgument = None,
    out: flags.Out = flags.RESULTS,
    plugins: flags.Plugins = None,
    trust: flags.TrustPlugins = False,
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, help="Go on training in so many (TRAIN_PROCESSES)."),
    ] = None,
    sets: RunSets = None,
    as_json: flags.Json = False,
    verbose: flags.Verbose = False,
    dry_run: flags.DryRun = False,
) -> None:
    """Do what is missing, failed or changed in a run. Example: assay study resume"""
    if dry_run:
        _show_planned(path, out, plugins, trust, as_json, sets)
        return
    from assay import host
    from assay.records.run import newest_run, open_run
    from assay.studies import session
    from assay.verbs import _running

    path = path or newest_run(out)
    changes = {"TRAIN_PROCESSES": str(processes)} if processes else {}
    study = session.study_of(
        open_run(path)[1], changes, sets=sets or (), plugin_folders=plugins or (), trust=trust
    )
    active = session.resumed(path, study, host.inspect())
    finish(_running.run(active, as_json=as_json, verbose=verbose))


def freeze(
    name: Annotated[str, typer.Argument(help="What the new defconfig is called.")],
    path: Annotated[
        Path | None, typer.Option("--run", help="Take the configuration of this run.")
    ] = None,
    config: flags.Config = None,
    sets: flags.Set = None,
    plugins: flags.Plugins = None,
    trust: flags.TrustPlugins = False,
) -> None:
    """Write a study down as defconfigs/NAME. Example: assay study freeze mine --set ROUNDS=9"""
    from assay.errors import BadInput
    from assay.installation import is_wheel
    from assay.records import run as runs
    from assay.records.durable import write_atomically
    from assay.studies import kconfig, session

    if path and (config or sets):
        raise BadInput("--run already says the configuration; leave out --config and --set")
    if path:
        run = runs.open_run(path)[1]
        study = session.study_of(run, plugin_folders=plugins or (), trust=trust)
    else:
        study = flags.load_study(config=config, sets=sets, plugins=plugins)
    # What pip installed is not ours to add to; --config takes a file of this folder too.
    target = Path(name) if is_wheel() else kconfig.DEFCONFIGS / name
    if target.exists():
        raise BadInput(f"{target} exists; choose another name, or remove it first")
    write_atomically(target, session.frozen(study, name).encode())
    print(f"wrote {target}; run it with: assay study run --config {name}")
