"""A bundle: runs made ready to leave the house, with a manifest of every byte in it.

    run.json, metrics.jsonl.gz            the run and its records, without names and paths
    report.md, report.html, figures/ ...  what is generated from them
    tables/                               the tables of the report as CSV
    README.md                             what it is, what holds, how to verify it
    manifest.json                         what the run is, and the SHA-256 of every other file

Of several runs each has its files in runs/NAME, below one README.md and one manifest. The digest of
a bundle is that of its manifest, and so stands for all of it. Who changes a file and makes the
manifest fit is found by the digest that `assay publish` printed; without it, only where the records
contradict him.
"""

import gzip
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from assay import host
from assay.errors import BadInput
from assay.records.durable import make_folder, write_atomically
from assay.records.run import RUN_FILE, RunFolder, load_records, open_run
from assay.reports.build import Built, build
from assay.reports.table_files import write_tables
from assay.verify.compared import RunComparison
from assay.verify.evidence import whole_lines
from assay.verify.publish.judged import JudgedRuns, judge_folders
from assay.verify.publish.manifest import (
    ALONE,
    MANIFEST,
    SCHEMA,
    SEVERAL,
    BundleManifest,
    PublishedPair,
    code_digest,
    counts,
    digest_of,
    drawing_versions,
    facts_of,
    files_below,
    mark,
    run_folders,
)
from assay.verify.publish.readme import README, readme
from assay.verify.publish.redaction import redacted

_STRANGE = re.compile(r"[^\w.+-]+")


@dataclass(frozen=True, kw_only=True)
class SealedBundle:
    """A bundle on disk, its digest, and what its reports were made of, by folder."""

    folder: Path
    digest: str
    built: Mapping[str, Built]

    @property
    def notes(self) -> list[str]:
        """Parts that the reports lack, and why."""
        return list(dict.fromkeys(note for built in self.built.values() for note in built.notes))


@contextmanager
def temporary(runs: Sequence[Path], *, pair: RunComparison | None = None) -> Iterator[SealedBundle]:
    """A bundle for what is made of one; it is gone afterwards."""
    with TemporaryDirectory() as folder:
        yield write(runs, Path(folder) / "bundle", pair=pair)


def write(runs: Sequence[Path], target: Path, *, pair: RunComparison | None = None) -> SealedBundle:
    """Write a whole bundle of some runs into a new folder, or none. Two runs are judged as `pair`
    says that they are compared."""
    if target.exists():
        raise BadInput(f"{target} is there already; name a new folder with --to")
    unfinished = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        built = {}
        for name, run in _places(runs).items():
            built[name] = build(prepare(run, unfinished / name))
            write_tables(built[name].report, unfinished / name / "tables")
        treatment, explained = (pair.treatment, pair.explained) if pair else ((), None)
        digest = seal(unfinished, treatment=treatment, explained=explained)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return SealedBundle(folder=target, digest=digest, built=built)


def prepare(run: Path, target: Path) -> RunFolder:
    """Write a run's records into a new folder, without names and paths."""
    folder, _ = open_run(run)
    lines = [json.dumps(redacted(json.loads(line))) for line in whole_lines(folder).splitlines()]
    made = RunFolder(path=make_folder(target))
    text = "".join(f"{line}\n" for line in lines).encode()
    write_atomically(made.archive, gzip.compress(text, mtime=0))
    plain_run = redacted(json.loads(folder.run_file.read_text()))
    write_atomically(target / RUN_FILE, json.dumps(plain_run, indent=2).encode() + b"\n")
    kept, whole = (
        len({(r.stage, r.cell, r.subject) for r in load_records(p)}) for p in (target, run)
    )
    if kept != whole:
        raise BadInput(
            f"{run}: without their folders, two of its names are the same, and so would be what "
            "was measured of them; rename one of the files, and run it again"
        )
    return made


def seal(
    target: Path,
    *,
    treatment: Sequence[str] = (),
    explained: Mapping[str, str] | None = None,
) -> str:
    """Judge the runs in a folder, write its README.md and its manifest, and return the digest."""
    names = run_folders(target)
    judged = judge_folders(
        [target / name for name in names], treatment=treatment, explained=explained
    )
    if judged.failing:
        name, finding = judged.failing[0]
        raise BadInput(f"{name} fails once redacted: {finding.check}: {finding.reason}")
    manifest = BundleManifest(
        schema=SCHEMA,
        made_by=host.inspect().commit,
        code=code_digest(),
        drawn_with=drawing_versions(),
        runs={
            name: facts_of(run, findings)
            for name, run, findings in zip(names, judged.runs, judged.findings, strict=True)
        },
        pair=_pair(judged),
        files={},
    )
    write_atomically(target / README, readme(manifest).encode())
    marks = {name: mark(target / name) for name in sorted(files_below(target))}
    manifest = msgspec.structs.replace(manifest, files=marks)
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    write_atomically(target / MANIFEST, content)
    return digest_of(content)


def _pair(judged: JudgedRuns) -> PublishedPair | None:
    if judged.pair is None:
        return None
    return PublishedPair(
        treatment=list(judged.pair.treatment),
        explained=redacted(dict(judged.pair.explained)),
        findings=counts(judged.pair_findings),
        untested=judged.untested,
    )


def _places(runs: Sequence[Path]) -> dict[str, Path]:
    """Runs by their folder in the bundle; those of the same name are numbered."""
    if len(runs) == 1:
        return {ALONE: runs[0]}
    places: dict[str, Path] = {}
    for run in runs:
        stem = _STRANGE.sub("-", redacted(run.resolve().name)).strip(".") or "run"
        name, number = f"{SEVERAL}/{stem}", 2
        while name in places:
            name, number = f"{SEVERAL}/{stem}-{number}", number + 1
        places[name] = run
    return places
