"""This machine and this checkout: devices, versions, commit, and a stable fingerprint.

Nothing here imports a framework. What cannot be found out is None, and `unknown` says why.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import assay
from assay import commit_files, devices, installation
from assay.devices import Device
from assay.installation import CHECKOUT

# Distributions whose version can move a number.
_DISTRIBUTIONS = ("numpy", "torch", "triton", "jax", "jaxlib", "flax", "msgspec", "transformers")


@dataclass(frozen=True, kw_only=True)
class Host:
    """A machine and a checkout of assay, as they are now."""

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
        return _fingerprint(self.devices, self.cores)

    @property
    def accelerators(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind != "cpu")

    def describe(self) -> dict[str, Any]:
        """Plain data for run.json, without what would single out this very machine."""
        described = {"fingerprint": self.fingerprint, **asdict(self)}
        for device in described["devices"]:
            del device["uuid"]
        return described


def inspect(*, commit: bool = True) -> Host:
    """Look at this machine, and at the commit unless nobody will ask."""
    unknown: dict[str, str] = {} if commit else {"commit": "not looked at"}
    known = versions(unknown)
    name, dirty = _code_state(unknown, known) if commit else (None, None)
    return Host(
        devices=devices.find(unknown),
        cores=_cores(),
        os=f"{platform.system()} {platform.release()}",
        versions=known,
        commit=name,
        dirty=dirty,
        unknown=unknown,
    )


@functools.cache
def own_fingerprint() -> str:
    """The fingerprint of this machine, without a look at versions and the checkout."""
    return _fingerprint(devices.find({}), _cores())


def _fingerprint(present: Sequence[Device], cores: int) -> str:
    parts = [platform.machine(), cores]
    parts += [(d.kind, d.name, d.driver) for d in present]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def versions(unknown: dict[str, str]) -> dict[str, str]:
    """Versions of all that can move a number, read without importing any of it."""
    known = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            known[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            unknown[name] = "not installed"
    known |= {key: value for key, value in _torch_build().items() if value}
    if ptxas := _ptxas_version():
        known["ptxas"] = ptxas
    else:
        unknown["ptxas"] = "no ptxas beside triton or on the PATH"
    return known


@functools.cache
def installed_version(package: str) -> str | None:
    """The version of a package by the name that it is imported by; None where nothing says it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # absent, or distributed under another name
        root = package.partition(".")[0]
        names = (
            sorted(set(_distributions().get(root, ()))) if importlib.util.find_spec(root) else ()
        )
        return ", ".join(map(importlib.metadata.version, names)) or None


@functools.cache
def _distributions() -> Mapping[str, Sequence[str]]:
    return importlib.metadata.packages_distributions()


def _torch_build() -> dict[str, str | None]:
    """The version of CUDA (or ROCm, as hip) that the installed torch was built for."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    text = Path(spec.origin).with_name("version.py").read_text()
    built_for: dict[str, str | None] = {}
    for node in ast.parse(text).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id in ("cuda", "hip") and node.value:
            built_for[target.id] = ast.literal_eval(node.value)
    return built_for


def _ptxas_version() -> str | None:
    spec = importlib.util.find_spec("triton")
    bundled = (
        Path(spec.origin).parent / "backends/nvidia/bin/ptxas" if spec and spec.origin else None
    )
    command = str(bundled) if bundled and bundled.is_file() else "ptxas"
    match = re.search(r"V(\d[\d.]*)", _output([command, "--version"]) or "")
    return match.group(1) if match else None


def _code_state(unknown: dict[str, str], known: dict[str, str]) -> tuple[str | None, bool | None]:
    """The commit, and True where a file differs from it. A wheel has none: its files are known by
    their version and the digest of their list, and it is from this list that one may differ."""
    if not installation.is_wheel():
        return _git_state(unknown)
    known["assay"] = assay.__version__
    files = installation.wheel_files()
    if files is None:
        unknown["commit"] = f"assay {assay.__version__} of a wheel whose list of files is missing"
        return None, None
    digest, differing = files
    known["assay"] += f", wheel {digest[:12]}"
    unknown["commit"] = (
        f"no checkout but a wheel of assay {assay.__version__}, its files sha256:{digest}"
    )
    if differing:
        unknown["clean"] = f"{len(differing)} files differ, such as {differing[0]}"
    return None, bool(differing)


def _git_state(unknown: dict[str, str]) -> tuple[str | None, bool | None]:
    """The checkout's commit, and True where something in it differs from that commit.

    A copy that is shown to be that of a commit is; what git says of a copy may be older.
    """
    copied = commit_files.read(CHECKOUT)
    if isinstance(copied, commit_files.CopyState) and not copied.differing:
        return copied.commit, False
    if installation.is_repository():
        commit = _output(["git", "-C", str(CHECKOUT), "rev-parse", "--verify", "HEAD"])
        status = _output(["git", "-C", str(CHECKOUT), "status", "--porcelain"])
        if commit is not None and status is not None:
            return commit.strip(), bool(status.strip())
    if isinstance(copied, commit_files.CopyState):
        unknown["clean"] = f"{len(copied.differing)} files differ, such as {copied.differing[0]}"
        return copied.commit, True
    unknown["commit"] = copied or (
        "this copy of assay is not a git checkout, or git is not installed; "
        f"`python -m assay.commit_files` in the checkout writes {commit_files.FILE} for a copy"
    )
    return None, None


def _output(command: Sequence[str]) -> str | None:
    """Standard output of a command; None where it is absent or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
