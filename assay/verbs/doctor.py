"""Say what this machine is, what it reaches and what runs on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.devices import Device
    from assay.host import Host
    from assay.records.schema import Measurement
    from assay.reports.table import Table

EXAMPLE = "Example: assay doctor --no-peaks"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(doctor)
    return app


def doctor(
    peaks: Annotated[bool, typer.Option(help="Measure bandwidth and matmul rate too.")] = True,
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
    from assay.reports.terminal import console, show

    screen = console()
    for table in (
        _machine(here),
        *([_ceilings(measured)] if peaks else []),
        _runnable(here, check_folders(plugins or ())),
    ):
        show(table, screen)


def _measure(here: "Host") -> "list[Measurement]":
    """The ceilings of the CPU and of each accelerator that torch can use."""
    from assay import peaks

    found = []
    for device in here.devices:
        try:
            found += peaks.measure(device.label)
        except (RuntimeError, AssertionError, ImportError) as error:
            found += peaks.unmeasured(device.label, f"{type(error).__name__}: {error}")
    return found


def _machine(here: "Host") -> "Table":
    from assay.reports.table import Table

    rows = [
        (f"device {device.label}", f"{device.name}, {_memory(device)}", _driver(device))
        for device in here.devices
    ]
    rows += [("cores", str(here.cores), ""), ("system", here.os, "")]
    rows += [(name, version, "") for name, version in here.versions.items()]
    state = {True: "with uncommitted changes", False: "clean", None: ""}[here.dirty]
    rows += [("commit", here.commit or "—", state), ("fingerprint", here.fingerprint, "")]
    rows += [(name, "—", reason) for name, reason in here.unknown.items()]
    return Table(title="This machine", columns=("what", "found", "note"), rows=tuple(rows))


def _memory(device: "Device") -> str:
    if device.memory_bytes is None:
        return "memory not known"
    return f"{device.memory_bytes / 2**30:.1f} GiB"


def _driver(device: "Device") -> str:
    return f"driver {device.driver}" if device.driver else ""


def _ceilings(measured: "list[Measurement]") -> "Table":
    from assay.reports.table import Table, value_entry

    return Table(
        title="What it reaches: the best sample, then the quartiles of all",
        columns=("device", "ceiling", "reached", "unit", "source"),
        rows=tuple((m.subject, m.metric, value_entry(m), m.unit, m.source or "") for m in measured),
    )


def _runnable(here: "Host", folders: "tuple[Path, ...]") -> "Table":
    """Everything that needs something, whether that is here, and how to get it."""
    from assay import plugins
    from assay.reports.table import Table

    rows = [("measuring on a GPU", *_gpu(here))]
    for kind in sorted(plugins.kinds()):
        for plugin in plugins.listing(kind, folders).values():
            if plugin.problem:
                rows.append((f"{kind}/{plugin.name}", "no", plugin.problem))
            elif plugin.missing:
                hint = f"pip install {' '.join(plugin.missing)}"
                rows.append((f"{kind}/{plugin.name}", "no", hint))
            elif plugin.requires:
                rows.append((f"{kind}/{plugin.name}", "yes", f"with {', '.join(plugin.requires)}"))
    for package, purpose in _OPTIONAL.items():
        found = plugins.installed(package)
        how = f"with {package}" if found else f"pip install {package}"
        rows.append((purpose, "yes" if found else "no", how))
    return Table(title="What runs here", columns=("what", "runs", "how"), rows=tuple(rows))


_OPTIONAL = {
    "kconfiglib": "studies from defconfigs",
    "duckdb": "assay query",
    "plotly": "report.html",
    "matplotlib": "printed figures",
    "transformers": "captures of Hugging Face models",
    "gguf": "models in GGUF files, such as SmolLM2",
}


def _gpu(here: "Host") -> tuple[str, str]:
    """Whether torch can use an accelerator of this machine, and what is missing where not."""
    if not here.accelerators:
        why = {kind: here.unknown.get(kind, "none is visible") for kind in ("nvidia", "amd")}
        return "no", "; ".join(f"{kind}: {reason}" for kind, reason in why.items())
    kind = here.accelerators[0].kind
    if {"cuda": "cuda", "rocm": "hip"}[kind] in here.versions:
        return "yes", f"with torch's {kind} build"
    wanted = f"install torch's {kind} build: see Which torch in README.md"
    return "no", f"torch is {here.versions.get('torch', 'not installed')}; {wanted}"


def _print_json(here: "Host", measured: "list[Measurement]") -> None:
    import msgspec

    described = {**here.describe(), "peaks": measured}
    print(msgspec.json.encode(described).decode())
