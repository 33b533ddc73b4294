"""Reports of a bundle made again from its records, and compared with those that it holds.

Texts and tables are the same wherever the same code makes them. The page and the figures depend on
the versions of what draws them too; where those are others, a difference proves nothing.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from assay.records.run import ARCHIVE_FILE, RUN_FILE, RunFolder
from assay.reports.build import build
from assay.reports.table_files import write_tables
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested
from assay.verify.publish.manifest import (
    BundleManifest,
    code_digest,
    drawing_versions,
    files_below,
    read_manifest,
    run_folders,
)
from assay.verify.publish.readme import README, readme

_DRAWN = (".html", ".png", ".svg", ".pdf")
_SOURCES = (RUN_FILE, ARCHIVE_FILE)


def compare_with_records(bundle: Path) -> list[CheckFinding]:
    """Make every file of a bundle again that is made from its records, and compare the bytes."""
    manifest = read_manifest(bundle)
    with TemporaryDirectory() as folder:
        again = Path(folder)
        notes = [note for name in run_folders(bundle) for note in _remake(bundle, again, name)]
        (again / README).write_bytes(readme(manifest).encode())
        names = [name for name in files_below(bundle) if Path(name).name not in _SOURCES]
        same, other, unmade = [], [], []
        for name in sorted(names):
            made = again / name
            if not made.is_file():
                unmade.append(name)
            else:
                equal = made.read_bytes() == (bundle / name).read_bytes()
                (same if equal else other).append(name)
        absent = sorted(files_below(again) - files_below(bundle))
    return list(_findings(manifest, same, other, unmade, absent, notes))


def _remake(bundle: Path, again: Path, name: str) -> Sequence[str]:
    """Make the report of a run, and return what it lacks here."""
    target = again / name
    target.mkdir(parents=True, exist_ok=True)
    for source in _SOURCES:
        shutil.copy(bundle / name / source, target)
    built = build(RunFolder(path=target))
    write_tables(built.report, target / "tables")
    return built.notes


def _findings(
    manifest: BundleManifest,
    same: list[str],
    other: list[str],
    unmade: list[str],
    absent: list[str],
    notes: Sequence[str],
) -> Iterator[CheckFinding]:
    for kind in (True, False):
        if equal := [name for name in same if name.endswith(_DRAWN) is not kind]:
            yield holds(f"{named(equal)} are what its records give")
    if manifest.code != code_digest():
        if names := [*other, *unmade, *absent]:
            mismatch = f"not what its records give: {', '.join(names)}"
            yield not_tested(f"{mismatch}; another version of assay made them")
        return
    versions = _other_versions(manifest)
    drawn = [name for name in (*other, *unmade, *absent) if name.endswith(_DRAWN)]
    if wrong := [name for name in (*other, *absent) if not name.endswith(_DRAWN)]:
        yield fails(f"not what its records give: {', '.join(wrong)}")
    if strange := [name for name in unmade if not name.endswith(_DRAWN)]:
        yield fails(f"nothing here makes: {', '.join(strange)}")
    if drawn and (versions or notes):
        reason = "; ".join((*versions, *dict.fromkeys(notes)))
        yield not_tested(f"{', '.join(drawn)}: {reason}")
    elif drawn:
        yield fails(f"not what its records give: {', '.join(drawn)}")


def _other_versions(manifest: BundleManifest) -> list[str]:
    """Where what draws here differs from what drew then."""
    here, there = drawing_versions(), manifest.drawn_with
    return [
        f"drawn with {name} {there.get(name, 'unknown')}, here it is {here.get(name, 'unknown')}"
        for name in sorted(here | there)
        if here.get(name) != there.get(name)
    ]
