"""Describe this machine, measure what it reaches, calibrate the instruments and list what runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.devices import Device
    from assay.host import Host
    from assay.plugins import Plugin
    from assay.records.schema import Measurement
    from assay.reports.table import Table

EXAMPLE = "Example: assay doctor --no-peaks"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(doctor)
    return app


def doctor(
    peaks: Annotated[
        bool, typer.Option(help="Measure bandwidth and matmul rate, calibrate instruments.")
    ] = True,
    plugins: flags.Plugins = None,
    as_json: flags.Json = False,
) -> None:
    from assay import host
    from assay.plugins import check_folders

    here = host.inspect()
    measured = _measure(here) if peaks else []
    if as_json:
        _print_json(here, measured)
        return
    from assay.reports.tables import host as tables
    from assay.reports.terminal import console, show

    screen = console()
    runnable = _runnable(here, check_folders(plugins or ()))
    screen.print(_answer(here, runnable, measured), markup=False, highlight=False, soft_wrap=True)
    for table in (
        _machine(here),
        *([tables.ceilings(measured), tables.instruments(measured)] if peaks else []),
        runnable,
    ):
        show(table, screen)


def _answer(here: "Host", runnable: "Table", measured: "Sequence[Measurement]") -> str:
    """A line on what this machine is good for."""
    from assay.records.schema import CALIBRATION

    rows = [[entry.text for entry in row] for row in runnable.entries]
    states = [row[1] for row in rows if row[0].startswith("sequence/")]
    doubted = [m.metric.removeprefix(CALIBRATION) for m in measured if m.status != "ok"]
    doubts = f"; not believed here: {', '.join(dict.fromkeys(doubted))}" if doubted else ""
    devices = ", ".join(device.name for device in here.devices)
    runs = f"{states.count('yes')} of {len(states)} implementations that need a package run here"
    return f"{devices}, {here.cores} cores: {runs}{doubts}"


def _measure(here: "Host") -> "list[Measurement]":
    """Ceilings of the CPU and of each accelerator that torch can use, and what the instruments of
    every installed framework read there."""
    import os

    import msgspec

    from assay import peaks, plugins
    from assay.records.schema import Measurement
    from assay.studies.cell import Cell
    from assay.studies.stages import host as stage

    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler writes lines of its own
    measurements = []
    for device in here.devices:
        try:
            measurements += peaks.measure(device.label)
        except (RuntimeError, AssertionError, ImportError) as error:
            measurements += peaks.unmeasured(device.label, f"{type(error).__name__}: {error}")
        instruments = Cell(
            name=f"{stage.INSTRUMENTS}{device.label}",
            subjects=tuple(n for n, p in plugins.listing("frameworks").items() if not p.missing),
            device=device.label,
        )
        measurements += [
            msgspec.structs.replace(read, subject=f"{read.subject}, {device.label}")
            for read in stage.run(instruments)
            if isinstance(read, Measurement)
        ]
    return measurements


def _machine(here: "Host") -> "Table":
    from assay.reports.table import Table

    rows = [
        (
            f"device {device.label}",
            f"{device.name}, {_memory(device)}",
            f"driver {device.driver}" if device.driver else "",
        )
        for device in here.devices
    ]
    rows += [("cores", str(here.cores), ""), ("system", here.os, "")]
    rows += [(name, version, "") for name, version in here.versions.items()]
    state = {True: "with uncommitted changes", False: "clean", None: ""}[here.dirty]
    rows += [("commit", here.commit or "—", state), ("fingerprint", here.fingerprint, "")]
    rows += [(name, "—", reason) for name, reason in here.unknown.items()]
    return Table(title="This machine", columns=("part", "value", "note"), rows=tuple(rows))


def _memory(device: "Device") -> str:
    if device.memory_bytes is None:
        return "memory unknown"
    return f"{device.memory_bytes / 2**30:.1f} GiB"


def _runnable(here: "Host", folders: "tuple[Path, ...]") -> "Table":
    """Plugins and features that need a package: available or not, and how to install it."""
    from assay import plugins
    from assay.reports.table import Table

    rows = [("measuring on a GPU", *_gpu(here))]
    for kind in sorted(plugins.kinds()):
        for plugin in plugins.listing(kind, folders).values():
            if plugin.problem:
                rows.append((f"{kind}/{plugin.name}", "no", plugin.problem))
            elif plugin.missing:
                rows.append((f"{kind}/{plugin.name}", "no", _how_to_have(plugin.missing, here)))
            elif reason := _refusal(plugin, here, folders):
                rows.append((f"{kind}/{plugin.name}", "no", reason))
            elif plugin.requires:
                rows.append((f"{kind}/{plugin.name}", "yes", f"with {', '.join(plugin.requires)}"))
    for package, purpose in _OPTIONAL.items():
        available = plugins.installed(package)
        how = f"with {package}" if available else f"pip install {package}"
        rows.append((purpose, "yes" if available else "no", how))
    return Table(title="What runs here", columns=("name", "runs", "how"), rows=tuple(rows))


# Packages that are of no use without a GPU of NVIDIA: no wheel is made for other machines.
_FOR_NVIDIA = ("flash_attn", "flashinfer", "xformers")


def _how_to_have(packages: Sequence[str], here: "Host") -> str:
    """The command that installs packages, or why none can here."""
    from assay.plugins import how_to_install

    of_nvidia = [name for name in packages if name in _FOR_NVIDIA]
    if of_nvidia and not any(device.kind == "cuda" for device in here.accelerators):
        return f"{', '.join(of_nvidia)}: for NVIDIA GPUs alone, and there is none here"
    if "triton" in packages and not here.os.startswith("Linux"):
        return f"triton: for Linux alone, and this is {here.os}"
    note = "; it is compiled here, which takes nvcc" if "flash_attn" in packages else ""
    return how_to_install(packages) + note


def _refusal(plugin: "Plugin", here: "Host", folders: "tuple[Path, ...]") -> str | None:
    """The reason of an implementation or a decode kernel that takes a plain workload in no dtype on
    this machine, as its `supports` says it; None where it takes it, and for other plugins."""
    from assay import plugins
    from assay.attention import contract
    from assay.workloads.spec import DTYPES, WorkloadSpec

    sizes = dict(batch=1, heads=2, kv_heads=2, query_length=128, key_length=128, head_dim=64)
    specs = [WorkloadSpec(**sizes, dtype=dtype, causal=True, seed=0) for dtype in DTYPES]
    try:
        if plugin.kind == "sequence":
            loaded = contract.load(str(plugin.path), folders)
            reasons = [loaded.refusal(spec, here) for spec in specs]
        elif plugin.kind == "decode" and "supports" in plugin.functions:
            device = "cuda" if here.accelerators else "cpu"
            supports = plugins.load(plugin).supports
            reasons = [supports(head_dim=64, dtype=dtype, device=device) for dtype in DTYPES]
        else:
            return None
    except Exception as error:  # of the implementation's own code
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return reasons[0] if all(reasons) else None


_OPTIONAL = {
    "duckdb": "assay query",
    "plotly": "report.html",
    "matplotlib": "printed figures",
    "transformers": "captures of Hugging Face models",
    "gguf": "models in GGUF files, such as SmolLM2",
}


def _gpu(here: "Host") -> tuple[str, str]:
    """Yes or no, with the build of torch that is used, or what is missing."""
    if not here.accelerators:
        reasons = {kind: here.unknown.get(kind, "none is visible") for kind in ("nvidia", "amd")}
        return "no", "; ".join(f"{kind}: {reason}" for kind, reason in reasons.items())
    kind = here.accelerators[0].kind
    if {"cuda": "cuda", "rocm": "hip"}[kind] in here.versions:
        return "yes", f"with torch's {kind} build"
    wanted = f"install torch's {kind} build: see docs/install.md"
    return "no", f"torch is {here.versions.get('torch', 'not installed')}; {wanted}"


def _print_json(here: "Host", measured: "list[Measurement]") -> None:
    import msgspec

    described = {**here.describe(), "peaks": measured}
    print(msgspec.json.encode(described).decode())
