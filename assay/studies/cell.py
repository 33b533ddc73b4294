"""A cell: the smallest unit that a study runs, records and resumes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from assay import plugins, subjects
from assay.code_digests import code_digests
from assay.errors import BadInput
from assay.host import Host, installed_version
from assay.records.identity import digest
from assay.records.schema import Measurement, Stamp, Status
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import identity

T = TypeVar("T")

# What a package works with that is not named by those who import it, as `Host.versions` calls it.
_BESIDE = {"torch": ("triton", "ptxas", "cuda", "hip"), "triton": ("ptxas",), "jax": ("jaxlib",)}
# Variables that move times or last bits of whatever runs below them.
_DECISIVE = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "XLA_FLAGS", "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_ENABLE_X64",
)  # fmt: skip


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
    launch: dict[str, Any] = field(default_factory=dict)  # its processes; no result depends on them
    # Given to run(cell) of a stage that STREAMS: the cell's own folder, and the number of batches
    # that the log holds already.
    folder: Path | None = None
    durable_batches: int = 0


@dataclass(frozen=True)
class Batch:
    """Measurements that are in the log, durably, before the cell goes on.

    Batches are numbered from 1, in every attempt alike: one that the log holds already is dropped.
    """

    number: int
    total: int | None  # None where it is not known
    measurements: Sequence[Measurement] = ()  # or dicts of their fields, as probes may return

    def __post_init__(self) -> None:
        if self.number < 1 or (self.total is not None and self.total < self.number):
            raise ValueError(
                f"batch {self.number} of {self.total}: batches are numbered from 1 to their total"
            )
        for item in self.measurements:
            if not isinstance(item, Measurement | dict):
                kind = type(item).__name__
                raise TypeError(f"a batch holds measurements; batch {self.number} holds a {kind}")
        object.__setattr__(self, "measurements", tuple(map(measurement_of, self.measurements)))


def measurement_of(item: Measurement | dict[str, Any]) -> Measurement:
    """The measurement that a stage yields, which may be a dict with the fields of one."""
    if isinstance(item, Measurement):
        return item
    try:
        return msgspec.convert(item, Measurement)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"a stage yields measurements, or dicts of their fields; this one is none: {error}"
        ) from error


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


@dataclass(frozen=True, kw_only=True)
class WorkerRequest:
    """Work for the process of a cell."""

    stage: str
    cell: Cell
    # Where the stage STREAMS: the run's folder, and what all records of this attempt share.
    run_folder: Path | None = None
    stamp: Stamp | None = None
    host: str = ""


def encode(request: WorkerRequest) -> bytes:
    """A request as it is handed to another process."""
    return msgspec.json.encode(request, enc_hook=os.fspath)


def decode(content: bytes) -> WorkerRequest:
    """The request that `encode` was given."""
    return msgspec.json.decode(
        content, type=WorkerRequest, dec_hook=lambda kind, value: kind(value)
    )


def parts(stage: str, cell: Cell) -> list[plugins.Plugin]:
    """The plugins a cell is made of: its stage, its probes and its implementations."""
    folders = cell.plugin_folders
    used = [plugins.find("stages", stage, folders)]
    used += [plugins.find(cell.probe_kind, name, folders) for name in cell.probes]
    return [*used, *implementations(cell).values()]


def frameworks(stage: str, cell: Cell) -> list[plugins.Plugin]:
    """The frameworks that a cell's stage and implementations work with."""
    named = [plugin.literals.get("FRAMEWORK") for plugin in implementations(cell).values()]
    named += plugins.find("stages", stage, cell.plugin_folders).literals["USES"]
    listed = plugins.listing("frameworks")
    return [listed[name] for name in dict.fromkeys(named) if name in listed]


def implementations(cell: Cell) -> dict[str, plugins.Plugin]:
    """The cell's subjects as plugins, where a probe is run on them."""
    if not cell.probes or not cell.kind:
        return {}
    folders = cell.plugin_folders
    return {
        name: plugins.find(cell.kind, subjects.plugin_name(cell.kind, name), folders)
        for name in cell.subjects
    }


@dataclass(frozen=True, kw_only=True)
class CellCode:
    """Code that a cell runs: digests of its files, and the packages that they import."""

    files: dict[str, list[str]]
    packages: tuple[str, ...]
    missing: dict[str, tuple[str, ...]]  # those that are not installed here, by subject


def code_of(stage: str, cell: Cell) -> CellCode:
    """Read the code behind a cell."""
    used = [*parts(stage, cell), *frameworks(stage, cell)]
    subject = [subjects.file_of(cell.kind)] if cell.workload else []
    return CellCode(
        files=code_digests(*(plugin.path for plugin in used), *subject, *cell.files),
        packages=tuple(sorted({name for plugin in used for name in plugin.requires} | {"numpy"})),
        missing={
            n: plugin.missing for n, plugin in implementations(cell).items() if plugin.missing
        },
    )


def code_key(cell: Cell) -> tuple[object, ...]:
    """All of a cell that decides which code is behind it: equal for most cells of a stage."""
    run_on = cell.subjects if cell.probes and cell.kind else ()
    place = (cell.plugin_folders, cell.files, cell.workload is None)
    return (cell.kind, cell.probe_kind, cell.probes, run_on, *place)


def fingerprint(stage: str, cell: Cell, host: Host, code: CellCode | None = None) -> str:
    """Changes with whatever the cell measures: options, thresholds, code, packages, environment.

    `code` is what `code_of` the cell returns, where that is known already.
    """
    code = code or code_of(stage, cell)
    described = msgspec.to_builtins(cell, enc_hook=os.fspath)
    for place in ("plugin_folders", "files", "folder", "durable_batches", "launch"):
        del described[place]  # their content counts, or where and how an attempt begins
    return digest(
        {
            "stage": stage,
            "cell": described,
            "files": code.files,
            "versions": _versions(code.packages, host),
            "environment": {name: os.environ[name] for name in _DECISIVE if name in os.environ},
        }
    )


def _versions(packages: Sequence[str], host: Host) -> dict[str, str | None]:
    known = {name: host.versions.get(name) or installed_version(name) for name in packages}
    beside = ("python", *(name for package in packages for name in _BESIDE.get(package, ())))
    return {**{name: host.versions.get(name) for name in beside}, **known}
