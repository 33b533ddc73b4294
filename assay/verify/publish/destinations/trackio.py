"""trackio: trackio:PROJECT keeps the bundle as an artifact of that project, on this machine."""

import io
import shutil
from contextlib import redirect_stdout
from pathlib import Path

from assay.errors import BadInput

REQUIRES = ("trackio",)
_KIND = "bundle"


def place(address: str, name: str) -> str:
    from trackio.sqlite_storage import SQLiteStorage

    if "/" in address or "\\" in address:  # which trackio would drop without a word
        raise BadInput(f"trackio:{address} names no project; wanted trackio:PROJECT")
    try:
        SQLiteStorage.validate_project_name(address)
    except ValueError as error:
        raise BadInput(f"trackio:{address}: {error}") from error
    if SQLiteStorage.get_artifact_manifest(address, name, None) is not None:
        raise BadInput(f"trackio's project {address} has the artifact {name} already")
    return f"the artifact {name} of trackio's project {address}"


def send(bundle: Path, address: str, name: str) -> None:
    import trackio

    with redirect_stdout(io.StringIO()):  # advice for somebody who trains
        run = trackio.init(
            project=address,
            name=f"publish-{name}",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )
        try:
            run.log_artifact(bundle, name=name, type=_KIND)
        finally:
            trackio.finish()


def fetch(address: str, name: str, target: Path) -> str | None:
    from trackio import cas
    from trackio.sqlite_storage import SQLiteStorage

    stored = SQLiteStorage.get_artifact_manifest(address, name, None)
    if stored is None:
        return f"trackio's project {address} on this machine shows no artifact {name}"
    for entry in stored["manifest"]:
        file = target / entry["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cas.blob_path(address, entry["digest"]), file)
    return None
