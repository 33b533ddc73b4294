"""Inspection of a bundle: as sealed, not contradicting itself, made from its records, and sound."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from assay.errors import BadInput
from assay.records.run import RUN_FILE
from assay.verify.compared import load
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested
from assay.verify.judgement import are_comparable
from assay.verify.publish.judged import judge_folders
from assay.verify.publish.manifest import (
    ALONE,
    MANIFEST,
    BundleManifest,
    FindingCounts,
    code_digest,
    counts,
    digest_of,
    facts_of,
    files_below,
    is_bundle,
    mark,
    read_manifest,
    run_folders,
)
from assay.verify.publish.remaking import compare_with_records

__all__ = ["inspect", "is_bundle", "look", "of_one_run"]

CHECK = "bundle"
# Checks that ask this checkout or files beside the run too, and may find less in another place.
_PLACED = ("commit", "tracker_config")


def inspect(bundle: Path, digest: str | None = None) -> list[CheckFinding]:
    """Find all that can be said of a bundle; where it is not as sealed, nothing in it is judged."""
    if not bundle.is_dir():
        raise BadInput(f"there is no folder {bundle}; name one that `assay publish` made")
    if not is_bundle(bundle):
        return [
            _of_bundle(
                fails(f"{MANIFEST} is missing: without it, nothing says what the bundle held")
            )
        ]
    sealed = [*look(bundle, digest)]
    if are_comparable(sealed):
        sealed += compare_with_records(bundle)
    sealed = [_of_bundle(finding) for finding in sealed]
    if not are_comparable(sealed):
        return sealed
    manifest = read_manifest(bundle)
    pair = manifest.pair
    judged = judge_folders(
        [bundle / name for name in run_folders(bundle)],
        treatment=pair.treatment if pair else (),
        explained=pair.explained if pair else None,
    )
    recounted = dict(zip(run_folders(bundle), map(counts, judged.findings), strict=True))
    sealed += map(_of_bundle, _recount(manifest, recounted, counts(judged.pair_findings)))
    if judged.untested:
        sealed.append(_of_bundle(not_tested(f"the pair: {judged.untested}")))
    of_runs = [finding for findings in judged.findings for finding in findings]
    return [*sealed, *of_runs, *judged.pair_findings]


def of_one_run(bundle: Path) -> list[CheckFinding]:
    """Find what can be said of a bundle that takes the place of a run."""
    sealed = look(bundle)
    if are_comparable(sealed) and len(names := run_folders(bundle)) > 1:
        raise BadInput(
            f"{bundle} is a bundle of {len(names)} runs; name one of them, such as "
            f"{bundle / names[0]}"
        )
    if are_comparable(sealed):
        sealed += compare_with_records(bundle)
    return [_of_bundle(finding) for finding in sealed]


def look(bundle: Path, digest: str | None = None) -> list[CheckFinding]:
    """Compare a bundle with its manifest, the manifest with the digest, and its files with each
    other."""
    if (bundle / MANIFEST).is_symlink() or not (bundle / MANIFEST).is_file():
        return [fails(f"{MANIFEST} is not a plain file")]
    actual = digest_of((bundle / MANIFEST).read_bytes())
    if digest is None:
        sealed = not_tested("no --digest was given: files and manifest may have been changed alike")
    elif digest.lower() == actual:
        sealed = holds("the manifest has the digest that was given")
    else:
        return [fails(f"the manifest has the digest {actual}, not the one given")]
    try:
        manifest = read_manifest(bundle)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [sealed, fails(f"{MANIFEST} cannot be read: {error}")]
    if changed := list(_changed(bundle, manifest)):
        return [sealed, *changed]
    as_sealed = holds(f"{len(manifest.files)} files as sealed")
    return [sealed, as_sealed, *_contradictions(bundle, manifest)]


def _of_bundle(finding: CheckFinding) -> CheckFinding:
    return replace(finding, check=CHECK)


def _changed(bundle: Path, manifest: BundleManifest) -> Iterator[CheckFinding]:
    there = files_below(bundle)
    if missing := sorted(set(manifest.files) - there):
        yield fails(f"missing: {named(missing)}")
    if added := sorted(there - set(manifest.files)):
        yield fails(f"added: {named(added)}")
    both = sorted(there & set(manifest.files))
    if altered := [name for name in both if mark(bundle / name) != manifest.files[name]]:
        yield fails(f"altered: {named(altered)}")


def _contradictions(bundle: Path, manifest: BundleManifest) -> Iterator[CheckFinding]:
    """Compare what the files of a bundle say, once they are known to be as sealed."""
    names = run_folders(bundle)
    if not names or set(names) != set(manifest.runs):
        yield fails(f"the manifest names the runs {named(sorted(manifest.runs))}; here are {names}")
        return
    if (manifest.pair is None) == (len(names) == 2):
        yield fails(
            f"the manifest has the comparison of a pair, or lacks it, for {len(names)} runs"
        )
    for name in names:
        yield from _of_run(bundle / name, name, manifest)


def _of_run(folder: Path, name: str, manifest: BundleManifest) -> Iterator[CheckFinding]:
    place = RUN_FILE if name == ALONE else f"{name}/{RUN_FILE}"
    try:
        run = load(folder)
    except BadInput as error:
        yield fails(f"its records cannot be read: {error}")
        return
    stated = manifest.runs[name]
    actual = facts_of(run, ())
    facts = msgspec.to_builtins(actual.facts)
    wrong = [key for key in facts | stated.facts if stated.facts.get(key) != facts.get(key)]
    wrong += ["hardware"] * (stated.hardware != actual.hardware)
    wrong += ["reasons"] * (stated.reasons != actual.reasons)
    if wrong:
        yield fails(f"the manifest contradicts {place}: {named(wrong)}")
    if strange := sorted({record.run for record in run.records} - {run.run.run}):
        yield fails(f"records of another run: {named(strange)}")


def _recount(
    manifest: BundleManifest, runs: dict[str, FindingCounts], pair: FindingCounts
) -> Iterator[CheckFinding]:
    """Compare the findings that the manifest counts with those of today."""
    stated = {name: run.findings for name, run in manifest.runs.items()}
    actual = dict(runs)
    if manifest.pair is not None:
        stated["pair"], actual["pair"] = manifest.pair.findings, pair
    wrong, placed = [], []
    for name, findings in stated.items():
        for check in sorted(_differing(findings, actual[name])):
            label = check if name == ALONE else f"{check} of {name}"
            (placed if check in _PLACED else wrong).append(label)
    if placed:
        yield not_tested(f"{named(placed)}: counted with another checkout's history than this one")
    if wrong and manifest.code == code_digest():
        yield fails(f"the manifest counts other findings than its records give: {named(wrong)}")
    elif wrong:
        yield not_tested(f"findings of another version of assay: {named(wrong)}")
    else:
        yield holds(f"the findings of {_checks(stated.values())} are as the manifest counts them")


def _differing(stated: FindingCounts, actual: FindingCounts) -> set[str]:
    return {check for check in stated | actual if stated.get(check) != actual.get(check)}


def _checks(findings: Sequence[FindingCounts]) -> str:
    return f"{len({check for counted in findings for check in counted})} checks"
