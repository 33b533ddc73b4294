"""W&B's files on this machine: the folder of a run, online or offline, its .wandb file, or many."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from assay import plugins
from assay.errors import BadInput, CannotRunHere
from assay.records.wandb_files import StoredRun, stored_file
from assay.trackers.opening import SourceRequest
from assay.trackers.run import RunMetadata, TrackerRun, history, plain_config, row

_STARTS = ("offline-run-", "run-")
# Distributions whose version can move a number.
_VERSIONS = ("torch", "triton", "numpy", "jax", "jaxlib", "flax", "transformers", "lightning")


def recognises(request: SourceRequest) -> bool:
    """True for a .wandb file, and for a folder that is a run's or holds some."""
    path = request.path
    return path is not None and (path.suffix == ".wandb" or bool(_folders(path)))


def read(request: SourceRequest) -> list[TrackerRun]:
    """The runs below a path; files of one identity, as a resumed run leaves them, are one run."""
    assert request.path is not None
    path = request.path.resolve()
    if path.suffix == ".wandb":
        return [_run(path.stem.removeprefix("run-"), [path.parent], [path])]
    by_identity: dict[str, list[Path]] = {}
    for folder in _folders(path):
        by_identity.setdefault(folder.name.rpartition("-")[2], []).append(folder)
    return [
        _run(identity, folders, [file for f in folders for file in sorted(f.glob("*.wandb"))])
        for identity, folders in by_identity.items()
    ]


def metadata_of(facts: dict[str, Any], versions: dict[str, str]) -> RunMetadata:
    """The machine of a run, from what W&B writes to wandb-metadata.json."""
    gpus = facts.get("gpuNvidia") or facts.get("gpu_nvidia") or facts.get("gpu_devices") or [{}]
    first = gpus[0] if isinstance(gpus, list) and gpus and isinstance(gpus[0], dict) else {}
    git = facts.get("git") if isinstance(facts.get("git"), dict) else {}
    python = str(facts.get("python", "")).removeprefix("CPython ")
    cuda = facts.get("cudaVersion") or facts.get("cuda_version") or facts.get("cuda")
    known = {"python": python, "cuda": cuda}
    return RunMetadata(
        commit=git.get("commit") or None,
        gpu_name=first.get("name") or facts.get("gpuType") or facts.get("gpu") or None,
        gpu_count=_whole(facts.get("gpuCount") or facts.get("gpu_count")),
        gpu_memory_bytes=_whole(first.get("memoryTotal") or first.get("memory_total")),
        os=facts.get("os"),
        cores=_whole(facts.get("cpuCountLogical") or facts.get("cpu_count_logical")),
        versions={**versions, **{name: str(v) for name, v in known.items() if v}},
    )


def _folders(path: Path) -> list[Path]:
    """The folders of runs at a path: itself, those in it, or those in its folder `wandb`."""
    if not path.is_dir():
        return []
    path = path.resolve()
    if _is_run(path):
        return [path]
    for parent in (path, path / "wandb"):
        # `latest-run` is a link to one of the others.
        children = sorted(child for child in parent.glob("*run-*") if _is_run(child))
        if children:
            return children
    return []


def _is_run(folder: Path) -> bool:
    named = folder.is_dir() and not folder.is_symlink() and folder.name.startswith(_STARTS)
    return named and (any(folder.glob("*.wandb")) or (folder / "files").is_dir())


def _run(identity: str, folders: list[Path], files: list[Path]) -> TrackerRun:
    stored = StoredRun()
    remarks = [] if files else ["no .wandb file, so no history"]
    for file in files:
        _require_wandb(file)
        if torn := stored_file(file, stored):
            remarks.append(f"{file.name} ends within a message; {torn:,} bytes are left out")
    config = {**_config(folders), **stored.config}
    rows = history(stored.history)
    facts = {**_json_of(folders, "wandb-metadata.json"), **stored.environment}
    system = tuple(
        row({f"system.{name}": value for name, value in values.items()}, at=moment)
        for moment, values in stored.system
    )
    about = stored.about
    return TrackerRun(
        source="wandb_folder",
        place=str(folders[0]),
        identity=about.get("identity", identity),
        name=about.get("name", identity),
        project=about.get("project"),
        entity=about.get("entity"),
        group=about.get("group"),
        # A mirror may run elsewhere than the run, which then says where itself.
        host=config.get("host") or about.get("host") or facts.get("host"),
        state=_state(about, has_file=bool(files)),
        config=plain_config(config),
        history=rows["history"],
        system=(*rows["system"], *system),
        summary={**_json_of(folders, "wandb-summary.json"), **stored.summary},
        tables=tuple(_table(folders, stored.summary.get("records"))),
        metadata=metadata_of(facts, _versions(folders)),
        step_column=rows["step_column"],
        remarks=(*remarks, *rows["remarks"]),
    )


def _require_wandb(file: Path) -> None:
    if not plugins.installed("wandb"):
        raise CannotRunHere(
            f"{file} can be read with W&B's own package alone; {plugins.how_to_install(['wandb'])}"
        )


def _state(about: dict[str, Any], *, has_file: bool) -> str | None:
    if not has_file:
        return None
    code = about.get("exit_code")
    if code is None:
        return "unfinished"
    return "finished" if code == 0 else "failed"


def _config(folders: Iterable[Path]) -> dict[str, Any]:
    """config.yaml, in which each value is below the word `value`."""
    merged: dict[str, Any] = {}
    for file in (folder / "files" / "config.yaml" for folder in folders):
        if file.is_file() and plugins.installed("yaml"):
            import yaml

            try:
                content = yaml.safe_load(file.read_text())
            except (yaml.YAMLError, ValueError, RecursionError) as error:  # no UTF-8, or no date
                raise BadInput(f"{file} is no YAML: {error}") from error
            entries = content.items() if isinstance(content, dict) else ()
            merged |= {
                str(k): v.get("value") if isinstance(v, dict) and "value" in v else v
                for k, v in entries
            }
    return merged


def _json_of(folders: Iterable[Path], name: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for file in (folder / "files" / name for folder in folders):
        if file.is_file():
            content = _decoded(file)
            merged |= content if isinstance(content, dict) else {}
    return merged


def _decoded(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file} is no JSON: {error}") from error


def _table(folders: Iterable[Path], entry: Any) -> list[dict[str, Any]]:
    """Rows of the table that assay's mirror leaves in a run's files."""
    name = entry.get("path") if isinstance(entry, dict) else None
    for folder in folders if isinstance(name, str) else ():
        file = (folder / "files" / name).resolve()
        if file.is_file() and file.is_relative_to(folder.resolve()):
            content = _decoded(file)
            try:
                rows = [
                    dict(zip(content["columns"], each, strict=True)) for each in content["data"]
                ]
            except (KeyError, TypeError, ValueError) as error:
                raise BadInput(f"{file} is no table of W&B: {error}") from error
            return rows
    return []


def _versions(folders: Iterable[Path]) -> dict[str, str]:
    versions = {}
    for file in (folder / "files" / "requirements.txt" for folder in folders):
        if file.is_file():
            lines = (line.partition("==") for line in file.read_text(errors="replace").splitlines())
            versions |= {name: version for name, _, version in lines if name in _VERSIONS}
    return versions


def _whole(value: Any) -> int | None:
    try:
        return int(value) or None
    except (TypeError, ValueError, OverflowError):
        return None
