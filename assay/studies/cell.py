"""A cell: the smallest unit that a study runs, records and resumes."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from assay import plugins, subjects
from assay.code_digests import code_digests
from assay.host import Host
from assay.records.identity import digest
from assay.records.schema import Measurement, Status
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import identity

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One unit of a stage's work. `options` is plain data that its `run(cell)` understands."""

    name: str  # unique within its stage
    subjects: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    workload: WorkloadSpec | None = None  # None where the probes make cases of their own
    device: str = "cpu"
    options: dict[str, Any] = field(default_factory=dict)
    plugin_folders: tuple[Path, ...] = ()
    # Of plugins that the subjects are, where probes are run on them; empty where they are none.
    kind: str = "sequence"
    probe_kind: str = "probes"  # of plugins that the probes are
    files: tuple[Path, ...] = ()  # beside its plugins: what else its results depend on


def options_of(settings: Any) -> dict[str, Any]:
    """The fields of a frozen settings object as a cell carries them."""
    return msgspec.to_builtins(settings)


def settings_of(cell: Cell, kind: type[T]) -> T:
    """The settings object that `options_of` was given."""
    return msgspec.convert(cell.options, kind)


def outcome(cell: Cell, subject: str, status: Status, reason: str) -> Measurement:
    """Return the measurement of a subject without a value."""
    return Measurement(
        subject=subject,
        metric="+".join(cell.probes) or cell.name,
        value=None,
        unit="",
        status=status,
        reason=reason,
        workload=identity(cell.workload) if cell.workload else None,
    )


def encode(stage: str, cell: Cell) -> bytes:
    """A cell as it is handed to another process."""
    return msgspec.json.encode({"stage": stage, "cell": cell}, enc_hook=os.fspath)


def decode(content: bytes) -> tuple[str, Cell]:
    """Return the stage and the cell that `encode` was given."""
    request = msgspec.json.decode(content)
    cell = msgspec.convert(request["cell"], Cell, dec_hook=lambda kind, value: kind(value))
    return request["stage"], cell


def parts(stage: str, cell: Cell) -> list[plugins.Plugin]:
    """The plugins a cell is made of: its stage, its probes and its implementations."""
    folders = cell.plugin_folders
    used = [plugins.find("stages", stage, folders)]
    used += [plugins.find(cell.probe_kind, name, folders) for name in cell.probes]
    return [*used, *implementations(cell).values()]


def implementations(cell: Cell) -> dict[str, plugins.Plugin]:
    """The cell's subjects as plugins, where a probe is run on them."""
    if not cell.probes or not cell.kind:
        return {}
    folders = cell.plugin_folders
    # A subject such as gemma:cudnn is the layer gemma with one of its cores.
    files = {name: name.partition(":")[0] for name in cell.subjects}
    return {name: plugins.find(cell.kind, file, folders) for name, file in files.items()}


def fingerprint(stage: str, cell: Cell, host: Host) -> str:
    """Changes with whatever the cell measures: options, thresholds, code, packages."""
    used = parts(stage, cell)
    packages = sorted({name for plugin in used for name in plugin.requires} | {"numpy"})
    subject = [subjects.file_of(cell.kind)] if cell.workload else []
    described = msgspec.to_builtins(cell, enc_hook=os.fspath)
    del described["plugin_folders"], described["files"]  # their content counts, not their place
    return digest(
        {
            "stage": stage,
            "cell": described,
            "files": code_digests(*(plugin.path for plugin in used), *subject, *cell.files),
            "versions": {name: host.versions.get(name) for name in packages},
        }
    )
