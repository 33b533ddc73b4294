"""Weights & Biases: wandb:[ENTITY/]PROJECT keeps the bundle as an artifact, offline or online.

Offline the artifact waits in WANDB_DIR (or ./wandb) and W&B's staging folder for `wandb sync`, and
is read back from there.
"""

import netrc
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from assay.errors import BadInput, CannotRunHere
from assay.records.wandb_files import messages

REQUIRES = ("wandb",)
_KIND = "bundle"
_SETTINGS = {
    "console": "off",
    "disable_git": True,
    "disable_job_creation": True,
    "save_code": False,
    "silent": True,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}


def place(address: str, name: str) -> str:
    _split(address)
    where = "offline, to be sent with wandb sync" if _is_offline() else "online"
    return f"the artifact {name} of W&B's project {address} ({where})"


def send(bundle: Path, address: str, name: str) -> None:
    os.environ.setdefault("WANDB_SILENT", "true")
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    entity, project = _split(address)
    try:
        run = wandb.init(
            entity=entity,
            project=project,
            id=_identity(name),
            resume="allow",
            name=f"publish-{name}",
            job_type="publish",
            dir=str(_folder()),
            settings=wandb.Settings(**_SETTINGS),
        )
        artifact = wandb.Artifact(name, type=_KIND)
        artifact.add_dir(str(bundle), policy="mutable")  # copied, for a bundle may be moved
        run.log_artifact(artifact)
        if not run.offline:
            artifact.wait()
        run.finish()
    except wandb.errors.Error as error:
        raise CannotRunHere(f"W&B: {error} Without a server, set WANDB_MODE=offline") from error
    wandb.teardown()  # waits for W&B's own process, which closes the files


def fetch(address: str, name: str, target: Path) -> str | None:
    if _is_offline():
        return _fetch_offline(name, target)
    import wandb

    entity, project = _split(address)
    path = f"{entity}/{project}" if entity else project
    try:
        wandb.Api().artifact(f"{path}/{name}:latest", type=_KIND).download(str(target))
    except (wandb.errors.Error, ValueError) as error:
        return f"W&B does not give it back: {error}"
    return None


def _fetch_offline(name: str, target: Path) -> str | None:
    identity = _identity(name)
    files = sorted((_folder() / "wandb").glob(f"offline-run-*-{identity}/run-{identity}.wandb"))
    entries = next(filter(None, map(_entries, reversed(files))), [])  # those of the last time
    if not entries:
        return f"W&B has written no artifact to {_folder() / 'wandb'}"
    for entry in entries:
        place_of_file = target / entry.path
        place_of_file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(entry.local_path, place_of_file)
    return None


def _entries(file: Path) -> list[Any]:
    """The files of the artifacts that a run of W&B has written down."""
    from wandb.proto import wandb_internal_pb2

    entries: list[Any] = []
    for message in messages(file):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(message)
        if record.WhichOneof("record_type") == "artifact" and record.artifact.type == _KIND:
            entries += record.artifact.manifest.contents
    return entries


def _split(address: str) -> tuple[str | None, str]:
    entity, slash, project = address.rpartition("/")
    if not project or "/" in entity or (slash and not entity):
        raise BadInput(f"wandb:{address} names no project; wanted wandb:[ENTITY/]PROJECT")
    if not _is_offline() and not _has_key():
        raise CannotRunHere("W&B has no key here; set WANDB_API_KEY, or WANDB_MODE=offline")
    return entity or None, project


def _identity(name: str) -> str:
    """W&B's own id of the run, which the read back finds it by."""
    return "publish-" + "".join(c if c.isalnum() else "-" for c in name)


def _folder() -> Path:
    return Path(os.environ.get("WANDB_DIR") or ".").resolve()


def _is_offline() -> bool:
    return os.environ.get("WANDB_MODE") == "offline"


def _has_key() -> bool:
    """True where a key is set or kept in ~/.netrc; nobody is asked whether it is the right one."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    server = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname
    try:
        return netrc.netrc().authenticators(server or "") is not None
    except (OSError, netrc.NetrcParseError):
        return False
