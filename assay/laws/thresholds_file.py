"""The thresholds file: recommendations by host, for programs that choose without measuring.

Other hosts' entries stay when one host's are written, and a file that cannot be understood is
never replaced.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import BadInput
from assay.laws.machines import device_name, host_of
from assay.laws.thresholds import METRIC, Recommendation
from assay.records.durable import make_folder, write_atomically
from assay.records.schema import Run

THRESHOLDS_SCHEMA = 1


class ThresholdsFile(msgspec.Struct, frozen=True, kw_only=True):
    """{"schema": 1, "hosts": {fingerprint: {"device", "run", "commit", "classes": [...]}}}."""

    schema: int
    hosts: dict[str, dict[str, Any]]


def read(path: Path) -> ThresholdsFile:
    """The file at `path`; refused where it is something else or of another schema."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=ThresholdsFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(
            f"{path} is not a thresholds file ({error}); give another path, or move it away"
        ) from error
    if content.schema != THRESHOLDS_SCHEMA:
        raise BadInput(
            f"{path} has thresholds of schema {content.schema}, this assay knows "
            f"{THRESHOLDS_SCHEMA}; give another path, or move it away"
        )
    return content


def write(path: Path, recommended: Sequence[Recommendation], runs: Sequence[Run]) -> None:
    """Put the recommendations of some runs into the file, in place of those of the same hosts."""
    others = read(path).hosts if path.exists() else {}
    hosts = dict.fromkeys(advice.workloads.host for advice in recommended)
    measured = {host: _host(host, recommended, runs) for host in hosts}
    content = {"schema": THRESHOLDS_SCHEMA, "hosts": {**others, **measured}}
    make_folder(path.parent)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def _host(host: str, recommended: Sequence[Recommendation], runs: Sequence[Run]) -> dict[str, Any]:
    measured = [run for run in runs if host_of(run) == host]
    return {
        "device": next((name for run in measured if (name := device_name(run))), None),
        "run": ", ".join(run.run for run in measured) or None,
        "commit": next((run.sessions[-1].commit for run in reversed(measured)), None),
        "classes": [_entry(advice) for advice in recommended if advice.workloads.host == host],
    }


def _entry(advice: Recommendation) -> dict[str, Any]:
    workloads = advice.workloads
    return {
        "level": workloads.level,
        **({"layer": workloads.layer} if workloads.layer else {}),
        "heads": workloads.heads,
        "kv_heads": workloads.kv_heads,
        "head_dim": workloads.head_dim,
        "dtype": workloads.dtype,
        "causal": workloads.causal,
        "metric": METRIC,
        "batches": list(advice.batches),
        "lengths": list(advice.lengths),
        "choices": [{"from": choice.start, "use": choice.use} for choice in advice.choices],
    }
