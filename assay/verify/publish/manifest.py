"""manifest.json of a bundle: the facts of each run, what was checked, a digest of every file."""

import hashlib
import importlib.metadata
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from assay.errors import BadInput
from assay.plugins import PACKAGE
from assay.records.run import RUN_FILE
from assay.verify.compared import ComparedRun
from assay.verify.finding import CheckFinding

T = TypeVar("T")

MANIFEST = "manifest.json"
SCHEMA = 2
ALONE = "."  # the folder of a run that has the bundle for itself
SEVERAL = "runs"  # the folder of the runs' folders otherwise
# Of run.json: what a reader asks of a figure before he believes it.
FACTS = (
    "run", "study", "commit", "dirty", "devices", "versions", "budget", "batch", "accumulation",
    "compiled", "dtype", "dataset", "seed", "tracker_project", "tracker_run",
)  # fmt: skip
# Distributions on which the bytes of pages and figures depend.
_DRAWING = ("matplotlib", "numpy", "pillow", "plotly", "jinja2")

# Verdicts by check, each with how often it was given.
FindingCounts = dict[str, dict[str, int]]


class FileMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it was sealed."""

    sha256: str
    size: int


class PublishedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run of the bundle."""

    facts: dict[str, Any]
    reasons: dict[str, str]  # of the facts that are null
    hardware: list[str]
    findings: FindingCounts


class PublishedPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two runs as they were compared; `untested` says why they could not be."""

    treatment: list[str]
    explained: dict[str, str]
    findings: FindingCounts
    untested: str | None = None


class BundleManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """manifest.json. Runs are named by their folder in the bundle, which is "." for one alone."""

    schema: int
    made_by: str | None  # the commit of assay that wrote the reports
    code: str  # the digest of its files
    drawn_with: dict[str, str]
    runs: dict[str, PublishedRun]
    pair: PublishedPair | None
    files: dict[str, FileMark]


class _Version(msgspec.Struct, frozen=True):
    schema: int


def read_manifest(bundle: Path) -> BundleManifest:
    """The manifest of a bundle of this version; one of another is BadInput, one that cannot be
    read a DecodeError."""
    content = (bundle / MANIFEST).read_bytes()
    version = _decoded(content, _Version).schema
    if version != SCHEMA:
        raise BadInput(
            f"{bundle} is a bundle of version {version}, and this assay reads version {SCHEMA}; "
            "verify it with the assay that made it, or publish its runs again"
        )
    return _decoded(content, BundleManifest)


def _decoded(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error


def is_bundle(folder: Path) -> bool:
    return (folder / MANIFEST).exists() or (folder / MANIFEST).is_symlink()


def run_folders(bundle: Path) -> list[str]:
    """The folders of the runs that lie in a bundle, by what is on disk and not by its manifest."""
    if (bundle / RUN_FILE).is_file():
        return [ALONE]
    files = (bundle / SEVERAL).glob(f"*/{RUN_FILE}")
    return sorted(file.parent.relative_to(bundle).as_posix() for file in files)


def facts_of(run: ComparedRun, findings: Sequence[CheckFinding]) -> PublishedRun:
    facts = {name: getattr(run.run, name) for name in FACTS}
    return PublishedRun(
        facts=facts,
        reasons={name: why for name, why in run.run.reasons.items() if name in facts},
        hardware=[str(device.get("name")) for device in run.gpus if device],
        findings=counts(findings),
    )


def counts(findings: Sequence[CheckFinding]) -> FindingCounts:
    """Verdicts by check."""
    counted: FindingCounts = {}
    for finding in sorted(findings, key=lambda finding: (finding.check, finding.verdict)):
        words = counted.setdefault(finding.check, {})
        words[finding.verdict] = words.get(finding.verdict, 0) + 1
    return counted


def files_below(folder: Path) -> set[str]:
    """All files below but the manifest, by their names from there. A link is one, whatever it leads
    to, and so is a folder without files."""
    files = (path for path in folder.rglob("*") if path.is_symlink() or not _has_entries(path))
    return {path.relative_to(folder).as_posix() for path in files} - {MANIFEST}


def _has_entries(path: Path) -> bool:
    return path.is_dir() and any(path.iterdir())


def mark(path: Path) -> FileMark:
    if path.is_symlink() or not path.is_file():
        return FileMark(sha256="not a file", size=0)
    with path.open("rb") as file:  # which may be larger than the memory
        return FileMark(sha256=hashlib.file_digest(file, "sha256").hexdigest(), size=file.tell())


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@cache
def code_digest() -> str:
    """The digest of all files of this package: equal ones make the same reports, whatever their
    commits are called and whatever was changed since."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            total.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


@cache
def drawing_versions() -> dict[str, str]:
    """Versions of what draws pages and figures here, and the kind of machine."""
    versions = {"machine": platform.machine(), "python": platform.python_version()}
    for name in _DRAWING:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
