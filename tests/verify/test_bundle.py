"""Changes to a bundle: bits, files, names, a manifest that was made to fit."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from altered_runs import fit

from assay.errors import BadInput
from assay.verify.evidence import FOLDER
from assay.verify.publish import bundle
from assay.verify.publish.inspection import look
from assay.verify.publish.manifest import MANIFEST, SCHEMA, mark, run_folders

LAYOUTS = {
    "one run": {".": "spine"},
    "two runs": {"runs/spine": "spine", "runs/quickstart-cpu": "quickstart-cpu"},
}


@pytest.fixture(scope="module", params=LAYOUTS)
def sealed(request, tmp_path_factory) -> tuple[Path, str]:
    """A bundle with a page and a folder, and its digest."""
    target = tmp_path_factory.mktemp("bundles") / "one"
    for name, source in LAYOUTS[request.param].items():
        bundle.prepare(FOLDER / source, target / name)
        # Its own for each run: two files of the same content can be swapped without a change.
        (target / name / "report.md").write_text(f"# A report of {source}\n\n| 1.23 |\n")
    (target / "figures").mkdir()
    (target / "figures" / "a.png").write_bytes(bytes(range(256)))
    return target, bundle.seal(target)


def failing(folder: Path, digest: str | None = None) -> list[str]:
    return [f.reason for f in look(folder, digest) if f.verdict == "fails"]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flip(folder: Path, draw: random.Random) -> None:
    path = draw.choice(files(folder))
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def cut(folder: Path, draw: random.Random) -> None:
    path = draw.choice(files(folder))
    path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size)])


def swap(folder: Path, draw: random.Random) -> None:
    one, other = draw.sample(files(folder), 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def add(folder: Path, draw: random.Random) -> None:
    (folder / draw.choice([".", "figures"]) / f"{draw.randrange(10**6)}.txt").write_text("more")


def link(folder: Path, draw: random.Random) -> None:
    (folder / f"{draw.randrange(10**6)}").symlink_to(draw.choice(files(folder)))


def add_folder(folder: Path, draw: random.Random) -> None:
    (folder / draw.choice([".", "figures"]) / f"{draw.randrange(10**6)}" / "empty").mkdir(
        parents=True
    )


def remove(folder: Path, draw: random.Random) -> None:
    draw.choice([p for p in files(folder) if p.name != MANIFEST]).unlink()


def rename(folder: Path, draw: random.Random) -> None:
    path = draw.choice([p for p in files(folder) if p.name != MANIFEST])
    path.rename(path.with_name(f"{draw.randrange(10**6)}"))


def rename_run(folder: Path, draw: random.Random) -> None:
    file = folder / draw.choice(run_folders(folder)) / "run.json"
    run = json.loads(file.read_text())
    run["run"] = f"20260101T000000.{draw.randrange(1000):03}Z-{draw.randrange(16**4):04x}"
    file.write_text(json.dumps(run))
    fit(folder)


def rename_folder(folder: Path, draw: random.Random) -> None:
    """The folder of a run gets another name, in the manifest too; one alone becomes one of many."""
    name = draw.choice(run_folders(folder))
    new = f"runs/{draw.randrange(10**6)}"
    if name == ".":
        (folder / new).mkdir(parents=True)
        for file in ("run.json", "metrics.jsonl.gz"):
            (folder / file).rename(folder / new / file)
    else:
        (folder / name).rename(folder / new)
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace(f'"{name}/', f'"{new}/'))


def edit_counts(folder: Path, draw: random.Random) -> None:
    """Findings are counted that nothing gave."""
    manifest = json.loads((folder / MANIFEST).read_text())
    run = draw.choice(list(manifest["runs"].values()))
    run["findings"][draw.choice(list(run["findings"]))] = {"holds": draw.randrange(10, 99)}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def edit_manifest(folder: Path, draw: random.Random) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    name = draw.choice(["run", "study", "commit", "dataset", "budget"])
    run = draw.choice(list(manifest["runs"].values()))
    run["facts"][name] = f"another {draw.randrange(10**6)}"
    (folder / MANIFEST).write_text(json.dumps(manifest))


def edit_value(folder: Path, draw: random.Random) -> None:
    """Records and checksum are changed alike: only the digest knows."""
    file = folder / draw.choice(run_folders(folder)) / "metrics.jsonl.gz"
    lines = gzip.decompress(file.read_bytes()).splitlines()
    number = draw.randrange(len(lines))
    record = json.loads(lines[number])
    record["value"] = draw.random()
    lines[number] = json.dumps(record).encode()
    file.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    fit(folder)


KINDS: list[Callable[[Path, random.Random], None]] = [
    flip, flip, flip, cut, swap, add, add_folder, link, remove, rename, rename_run, rename_folder,
    edit_manifest, edit_counts, edit_value,
]  # fmt: skip


def test_as_sealed_nothing_fails(sealed):
    assert failing(*sealed) == []
    (unknown,) = [f for f in look(sealed[0]) if f.verdict == "not tested"]
    assert "no --digest was given" in unknown.reason


@pytest.mark.parametrize("changes", [500, pytest.param(3_000, marks=pytest.mark.slow)])
def test_every_random_change_is_found_by_the_digest(sealed, tmp_path, changes):
    folder, digest = sealed
    whole = {path.relative_to(folder): path.read_bytes() for path in files(folder)}
    work, draw = tmp_path / "work", random.Random(changes)
    shutil.copytree(folder, work)
    missed = []
    for number in range(changes):
        kind = draw.choice(KINDS)
        kind(work, draw)
        if not failing(work, digest):
            missed.append((number, kind.__name__))
        restore(work, whole)
    assert missed == []
    assert failing(work, digest) == []  # it was whole again before each


def restore(folder: Path, whole: dict[Path, bytes]) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):  # a folder after what it holds
        name = path.relative_to(folder)
        if path.is_symlink() or (path.is_file() and name not in whole):
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    for name, content in whole.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists() or (folder / name).read_bytes() != content:
            (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    "kind", [rename_run, rename_folder, edit_manifest, add, add_folder, remove, rename, link]
)
def test_without_a_digest_what_the_files_contradict_is_found(sealed, tmp_path, kind):
    for seed in range(20):
        work = shutil.copytree(sealed[0], tmp_path / str(seed))
        kind(work, random.Random(seed))
        assert failing(work), kind.__name__


def test_a_bundle_of_another_version_is_refused(sealed, tmp_path):
    work = shutil.copytree(sealed[0], tmp_path / "newer")
    text = (work / MANIFEST).read_text()
    (work / MANIFEST).write_text(text.replace(f'"schema": {SCHEMA}', '"schema": 9', 1))
    with pytest.raises(BadInput, match=f"a bundle of version 9, and this assay reads .* {SCHEMA}"):
        look(work)


def test_a_manifest_that_names_files_elsewhere_reads_none_of_them(sealed, tmp_path):
    work = shutil.copytree(sealed[0], tmp_path / "work")
    (tmp_path / "secret").write_text("secret")
    manifest = json.loads((work / MANIFEST).read_text())
    manifest["files"]["../secret"] = msgspec.to_builtins(mark(tmp_path / "secret"))
    (work / MANIFEST).write_text(json.dumps(manifest))
    assert failing(work) == ["missing: ../secret"]


def test_a_bundle_as_earlier_versions_wrote_it_is_refused_in_words(tmp_path):
    (tmp_path / MANIFEST).write_text('{"schema": 1, "facts": {}, "files": {}}')
    with pytest.raises(BadInput, match="publish its runs again"):
        look(tmp_path)


def test_two_names_that_become_one_are_refused_rather_than_lost(tmp_path):
    run = shutil.copytree(FOLDER / "quickstart-cpu", tmp_path / "run")
    lines = gzip.decompress((run / "metrics.jsonl.gz").read_bytes()).decode()
    lines = lines.replace('"subject":"eager"', '"subject":"/srv/a/mine.py"')
    lines = lines.replace('"subject":"sdpa"', '"subject":"/srv/b/mine.py"')
    (run / "metrics.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    with pytest.raises(BadInput, match="two of its names are the same"):
        bundle.prepare(run, tmp_path / "bundle")
