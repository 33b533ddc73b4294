"""What this machine is: devices, versions, commit and cleanliness; its stable fingerprint.

Nothing here imports a framework. What cannot be found out is None, and `unknown` says why.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assay import devices
from assay.devices import Device

CHECKOUT = Path(__file__).parent.parent
# Says which commit a copy was made from, on a machine that the repository itself does not reach.
COMMIT_VARIABLE = "ASSAY_COMMIT"

# Distributions whose version can move a number.
_DISTRIBUTIONS = ("numpy", "torch", "triton", "jax", "jaxlib", "flax", "msgspec", "transformers")


@dataclass(frozen=True, kw_only=True)
class Host:
    """This machine and this checkout, as found now."""

    devices: tuple[Device, ...]
    cores: int
    os: str
    versions: dict[str, str]
    commit: str | None
    dirty: bool | None
    unknown: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """The same on every start of the same hardware and driver; free of names and addresses."""
        parts = [platform.machine(), self.cores]
        parts += [(d.kind, d.name, d.driver) for d in self.devices]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()

    @property
    def accelerators(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind != "cpu")

    def describe(self) -> dict[str, Any]:
        """Plain data for run.json, without what would single out this very machine."""
        described = {"fingerprint": self.fingerprint, **asdict(self)}
        for device in described["devices"]:
            del device["uuid"]
        return described


def inspect() -> Host:
    """Look at this machine."""
    unknown: dict[str, str] = {}
    commit, dirty = _git_state(unknown)
    return Host(
        devices=devices.find(unknown),
        cores=(
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        ),
        os=f"{platform.system()} {platform.release()}",
        versions=versions(unknown),
        commit=commit,
        dirty=dirty,
        unknown=unknown,
    )


def versions(unknown: dict[str, str]) -> dict[str, str]:
    """Versions of all that can move a number, read without importing any of it."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            unknown[name] = "not installed"
    built_for = _torch_build()
    found |= {key: value for key, value in built_for.items() if value}
    ptxas = _ptxas_version()
    if ptxas:
        found["ptxas"] = ptxas
    else:
        unknown["ptxas"] = "no ptxas beside triton or on the PATH"
    return found


def _torch_build() -> dict[str, str | None]:
    """Which CUDA or ROCm the installed torch was built for, from its version file's text."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    text = Path(spec.origin).with_name("version.py").read_text()
    found: dict[str, str | None] = {}
    for node in ast.parse(text).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id in ("cuda", "hip") and node.value:
            found[target.id] = ast.literal_eval(node.value)
    return found


def _ptxas_version() -> str | None:
    spec = importlib.util.find_spec("triton")
    bundled = (
        Path(spec.origin).parent / "backends/nvidia/bin/ptxas" if spec and spec.origin else None
    )
    command = str(bundled) if bundled and bundled.is_file() else "ptxas"
    match = re.search(r"V(\d[\d.]*)", _output([command, "--version"]) or "")
    return match.group(1) if match else None


def _git_state(unknown: dict[str, str]) -> tuple[str | None, bool | None]:
    """The checkout's commit and whether anything in it differs from that commit."""
    given = os.environ.get(COMMIT_VARIABLE)
    if given:
        unknown["dirty"] = f"the commit was given by {COMMIT_VARIABLE}, for a copy of a checkout"
        return given, None
    commit = _output(["git", "-C", str(CHECKOUT), "rev-parse", "--verify", "HEAD"])
    status = _output(["git", "-C", str(CHECKOUT), "status", "--porcelain"])
    if commit is None or status is None:
        unknown["commit"] = "this copy of assay is not a git checkout, or git is not installed"
        return None, None
    return commit.strip(), bool(status.strip())


def _output(command: Sequence[str]) -> str | None:
    """What a command prints; None where it is absent or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
