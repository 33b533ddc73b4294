"""Plan, run, look at, resume and freeze a study."""

from pathlib import Path
from typing import Annotated

import typer

from assay.verbs import _flags as flags
from assay.verbs._running import finish, tell

RunArgument = Annotated[
    Path | None, typer.Argument(help="The run's folder; the newest below --out where not given.")
]


def command() -> typer.Typer:
    app = typer.Typer(
        no_args_is_help=True, help=f"{__doc__} Example: assay study run --config quickstart"
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

    show_plan(flags.load_study(config=config, sets=sets, plugins=plugins), as_json=as_json)


def run(
    config: flags.Config = None,
    sets: flags.Set = None,
    out: flags.StudyOut = None,
    plugins: flags.Plugins = None,
    keep_going: Annotated[
        bool,
        typer.Option("--continue", help="Go on with the newest run of this very configuration."),
    ] = False,
    as_json: flags.Json = False,
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
    from assay.studies import session
    from assay.verbs import _running

    study = flags.load_study(config=config, sets=sets, plugins=plugins)
    out = out or Path(study.results)
    if dry_run:
        _running.show_plan(study, as_json=as_json)
        return
    if single:
        from assay.verbs._one_step import ChosenStudy, one_step

        chosen = ChosenStudy(config=config, sets=sets or (), plugins=plugins or (), out=out)
        finish(one_step(study, chosen, as_json=as_json))
    earlier = session.latest(out, study) if keep_going else None
    here = host.inspect()
    active = (
        session.resumed(earlier, study, here)
        if earlier
        else session.started(study, here, out, study.study)
    )
    finish(_running.run(active, as_json=as_json))


def status(
    path: RunArgument = None,
    out: flags.Out = flags.RESULTS,
    plugins: flags.Plugins = None,
    trust: flags.TrustPlugins = False,
    as_json: flags.Json = False,
) -> None:
    """Show what of a run is done and at work, and what resuming would run.

    Example: assay study status
    """
    from assay import host
    from assay.records import run as runs
    from assay.records.identity import current
    from assay.reports.table import Table
    from assay.studies import plan as plans
    from assay.studies import progress, session
    from assay.studies.earlier import EarlierRecords
    from assay.verbs._progress import StageState, stages_table

    folder, record = runs.open_run(path or runs.newest_run(out))
    here, goes = host.inspect(), folder.is_held()
    rows, earlier, stages = [], EarlierRecords(), []
    study = session.study_of(record, plugin_folders=plugins or (), trust=trust)
    hosts = plans.hosts_of(study, here)
    for stage in plans.make(study, here):
        before = runs.stage_records(folder, stage.name)
        running = progress.at_work(folder.stage(stage.name)) if goes else []
        places = {cell.name: f"at work: {cell.place}".rstrip(": ") for cell in running}
        states = []
        for state in plans.states(stage, here, hosts, before=before, earlier=earlier):
            name, why = state.planned.cell.name, state.why_due
            states.append(places.get(name) or (f"to do: {why}" if why else "done"))
            rows.append((stage.name, name, states[-1]))
        counted = len(states), len(states) - states.count("done")
        stages.append(StageState(stage.name, *counted, current(before), running))
        earlier.extend(stages[-1].records)
    due = sum(row[2] != "done" for row in rows)
    trusted = " --trust-plugins" if study.plugin_folders else ""
    command = f"assay study resume {folder.path}{trusted}"
    waiting = "" if goes or not due else f"go on with: {command}"
    table = Table(
        title=f"{folder.path}: {len(rows) - due} of {len(rows)} cells done",
        columns=("stage", "cell", "state"),
        rows=tuple(rows),
        note=waiting,
    )
    tell(table, as_json=as_json)
    if not as_json:
        tell(stages_table("Running" if goes else "Not running", stages), as_json=False)


def resume(
    path: RunArgument = None,
    out: flags.Out = flags.RESULTS,
    plugins: flags.Plugins = None,
    trust: flags.TrustPlugins = False,
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, help="Go on training in so many (TRAIN_PROCESSES)."),
    ] = None,
    as_json: flags.Json = False,
    dry_run: flags.DryRun = False,
) -> None:
    """Do what is missing, failed or changed in a run. Example: assay study resume"""
    if dry_run:
        status(path, out, plugins, trust, as_json)
        return
    from assay import host
    from assay.records.run import newest_run, open_run
    from assay.studies import session
    from assay.verbs import _running

    path = path or newest_run(out)
    changes = {"TRAIN_PROCESSES": str(processes)} if processes else {}
    study = session.study_of(open_run(path)[1], changes, plugin_folders=plugins or (), trust=trust)
    active = session.resumed(path, study, host.inspect())
    finish(_running.run(active, as_json=as_json))


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
    target = kconfig.DEFCONFIGS / name
    if target.exists():
        raise BadInput(f"{target} exists; choose another name, or remove it first")
    write_atomically(target, session.frozen(study, name).encode())
    print(f"wrote {target}; run it with: make defconfig-{name} && make")
