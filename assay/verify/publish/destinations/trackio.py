"""trackio: trackio:PROJECT keeps the bundle as an artifact of that project, on this machine."""

from pathlib import Path

from assay.errors import BadInput

REQUIRES = ("trackio",)
_KIND = "bundle"


def place(address: str, name: str) -> str:
    from trackio.sqlite_storage import SQLiteStorage

    try:
        SQLiteStorage.validate_project_name(address)
    except ValueError as error:
        raise BadInput(f"trackio:{address}: {error}") from error
    if SQLiteStorage.get_artifact_manifest(address, name, None) is not None:
        raise BadInput(f"trackio's project {address} has the artifact {name} already")
    return f"the artifact {name} of trackio's project {address}"


def send(bundle: Path, address: str, name: str) -> None:
    import trackio

    run = trackio.init(project=address, name=f"publish-{name}", embed=False)
    try:
        run.log_artifact(bundle, name=name, type=_KIND)
    finally:
        trackio.finish()


def fetch(address: str, name: str, target: Path) -> str | None:
    import trackio

    run = trackio.init(project=address, name=f"publish-{name}", resume="allow", embed=False)
    try:
        run.use_artifact(name, type=_KIND).download(target)
    finally:
        trackio.finish()
    return None
