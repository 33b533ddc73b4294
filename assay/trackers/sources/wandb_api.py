"""W&B's server, where a key is there: the runs of a project, or those of one name.

Nothing here could be tried against a server; it is kept to the calls that W&B documents.
"""

import netrc
import os
from typing import Any
from urllib.parse import urlsplit

from assay import plugins
from assay.errors import CannotRunHere
from assay.trackers.opening import SourceRequest
from assay.trackers.run import TrackerRun, history, plain_config, row
from assay.trackers.sources.wandb_folder import metadata_of

_TIMEOUT_S = 30
_MOST_EVENTS = 10_000


def recognises(request: SourceRequest) -> bool:
    return request.path is None and bool(request.project)


def read(request: SourceRequest) -> list[TrackerRun]:
    """All runs of a project, with every row of their histories."""
    if not plugins.installed("wandb"):
        raise CannotRunHere(
            f"W&B's server is asked with its own package; {plugins.how_to_install(['wandb'])}"
        )
    if not _has_key():
        raise CannotRunHere(
            "there is no key for W&B's server: set WANDB_API_KEY, or run `wandb login`; or read "
            "files instead: a folder wandb, or an export of a history"
        )
    import wandb

    try:
        api = wandb.Api(timeout=_TIMEOUT_S)
        remote = api.runs(request.words)
        return [_run(each) for each in remote if _is_wanted(each, request.run_name)]
    except Exception as error:  # whatever its own packages raise without an answer
        raise CannotRunHere(
            f"W&B's server did not give {request.words}: {type(error).__name__}: {error}"
        ) from error


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    base = os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"
    try:
        return (
            netrc.netrc(os.environ.get("NETRC")).authenticators(urlsplit(base).netloc) is not None
        )
    except (OSError, netrc.NetrcParseError):
        return False


def _is_wanted(remote: Any, name: str | None) -> bool:
    return name is None or name in (remote.name, remote.id)


def _run(remote: Any) -> TrackerRun:
    made = history(remote.scan_history())
    events = remote.history(stream="events", pandas=False, samples=_MOST_EVENTS)
    facts = dict(remote.metadata or {})
    return TrackerRun(
        source="wandb_api",
        place=f"{remote.entity}/{remote.project}",
        identity=remote.id,
        name=remote.name,
        project=remote.project,
        entity=remote.entity,
        group=remote.group,
        host=facts.get("host"),
        state=remote.state,
        config=plain_config(remote.config),
        history=made["history"],
        system=(*made["system"], *(row(each, at=each.get("_timestamp")) for each in events)),
        summary=dict(remote.summary),
        metadata=metadata_of(facts, {}),
        step_column=made["step_column"],
        remarks=made["remarks"],
    )
