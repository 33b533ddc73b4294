"""A bundle: a run made ready to leave the house, with a manifest of every byte in it.

    run.json, metrics.jsonl.gz            the run and its records, without names and paths
    report.md, report.html, figures/ ...  what is generated from them
    manifest.json                         what the run is, and the SHA-256 of every other file

The digest of a bundle is that of its manifest, and so stands for all of it. Who changes a file and
makes the manifest fit is found by the digest that `assay publish` printed; without it, only where
the records contradict him.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay import host
from assay.errors import BadInput
from assay.records.durable import make_folder, write_atomically
from assay.records.run import RUN_FILE, RunFolder, open_run
from assay.records.schema import Run
from assay.verify.compared import ComparedRun, load
from assay.verify.evidence import whole_lines
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested
from assay.verify.redaction import redacted

MANIFEST = "manifest.json"
SCHEMA = 1
# Of run.json: what a reader asks of a figure before he believes it.
FACTS = (
    "run", "study", "commit", "dirty", "devices", "versions", "budget", "batch", "accumulation",
    "compiled", "dtype", "dataset", "seed", "tracker_project", "tracker_run",
)  # fmt: skip


class FileMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it was sealed."""

    sha256: str
    size: int


class BundleManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """manifest.json."""

    schema: int
    made_by: str | None  # the commit of assay that wrote the report
    facts: dict[str, Any]
    hardware: list[str]
    findings: dict[str, int]
    files: dict[str, FileMark]


def is_bundle(folder: Path) -> bool:
    return (folder / MANIFEST).exists() or (folder / MANIFEST).is_symlink()


def prepare(run: Path, target: Path) -> RunFolder:
    """Write a run's records into a new folder, without names and paths."""
    folder, _ = open_run(run)
    lines = [json.dumps(redacted(json.loads(line))) for line in whole_lines(folder).splitlines()]
    made = RunFolder(path=make_folder(target))
    text = "".join(f"{line}\n" for line in lines).encode()
    write_atomically(made.archive, gzip.compress(text, mtime=0))
    plain_run = redacted(json.loads(folder.run_file.read_text()))
    write_atomically(target / RUN_FILE, json.dumps(plain_run, indent=2).encode() + b"\n")
    return made


def seal(target: Path, findings: Sequence[CheckFinding]) -> str:
    """Write the manifest of all that lies in a folder, and return its digest."""
    run = load(target)
    words = [finding.verdict for finding in findings]
    manifest = BundleManifest(
        schema=SCHEMA,
        made_by=host.inspect().commit,
        facts=_facts(run.run),
        hardware=_hardware(run),
        findings={word: words.count(word) for word in sorted(set(words))},
        files={name: _mark(target / name) for name in sorted(_files(target))},
    )
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    write_atomically(target / MANIFEST, content)
    return _digest(content)


def is_made_here(bundle: Path) -> bool:
    """True where this very assay wrote its report, which would then write it again."""
    manifest = msgspec.json.decode((bundle / MANIFEST).read_bytes(), type=BundleManifest)
    return manifest.made_by is not None and manifest.made_by == host.inspect().commit


def look(bundle: Path, digest: str | None = None) -> list[CheckFinding]:
    """Compare a bundle with its manifest, the manifest with the digest, and its files with each
    other."""
    if (bundle / MANIFEST).is_symlink() or not (bundle / MANIFEST).is_file():
        return [fails(f"{MANIFEST} is not a plain file")]
    content = (bundle / MANIFEST).read_bytes()
    if digest is None:
        sealed = not_tested("no --digest was given: files and manifest may have been changed alike")
    elif digest.lower() == _digest(content):
        sealed = holds("the manifest has the digest that was given")
    else:
        sealed = fails(f"the manifest has the digest {_digest(content)}, not the one given")
    try:
        manifest = msgspec.json.decode(content, type=BundleManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [sealed, fails(f"{MANIFEST} cannot be read: {error}")]
    if manifest.schema != SCHEMA:
        raise BadInput(
            f"{bundle} is a bundle of version {manifest.schema}; this assay reads {SCHEMA}"
        )
    changed = list(_changed(bundle, manifest))
    if changed:
        return [sealed, *changed]
    return [
        sealed,
        holds(f"{len(manifest.files)} files as sealed"),
        *_contradictions(bundle, manifest),
    ]


def _changed(bundle: Path, manifest: BundleManifest) -> Iterator[CheckFinding]:
    there = _files(bundle)
    if missing := sorted(set(manifest.files) - there):
        yield fails(f"missing: {named(missing)}")
    if added := sorted(there - set(manifest.files)):
        yield fails(f"added: {named(added)}")
    both = sorted(there & set(manifest.files))
    if altered := [name for name in both if _mark(bundle / name) != manifest.files[name]]:
        yield fails(f"altered: {named(altered)}")


def _contradictions(bundle: Path, manifest: BundleManifest) -> Iterator[CheckFinding]:
    """Compare what the files of a bundle say, once they are known to be as sealed."""
    try:
        run = load(bundle)
    except BadInput as error:
        yield fails(f"its records cannot be read: {error}")
        return
    facts = msgspec.to_builtins(_facts(run.run))
    if wrong := [name for name in FACTS if manifest.facts.get(name) != facts[name]]:
        yield fails(f"the manifest contradicts {RUN_FILE}: {named(wrong)}")
    if manifest.hardware != _hardware(run):
        yield fails(f"the manifest contradicts {RUN_FILE}: hardware")
    if strange := sorted({record.run for record in run.records} - {run.run.run}):
        yield fails(f"records of another run: {named(strange)}")


def _hardware(run: ComparedRun) -> list[str]:
    return [str(device.get("name")) for device in run.gpus if device]


def _facts(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in FACTS}


def _files(folder: Path) -> set[str]:
    """All files below, by their names from there; a link is one, whatever it leads to."""
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in files} - {MANIFEST}


def _mark(path: Path) -> FileMark:
    if path.is_symlink() or not path.is_file():
        return FileMark(sha256="not a file", size=0)
    content = path.read_bytes()
    return FileMark(sha256=_digest(content), size=len(content))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
