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
from assay.verify import bundle
from assay.verify.evidence import FOLDER
from assay.verify.redaction import redacted

SOURCE = FOLDER / "spine"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory) -> tuple[Path, str]:
    """A bundle with a page and a folder, and its digest."""
    target = tmp_path_factory.mktemp("bundles") / "one"
    bundle.prepare(SOURCE, target)
    (target / "report.md").write_text("# A report\n\n| 1.23 |\n")
    (target / "figures").mkdir()
    (target / "figures" / "a.png").write_bytes(bytes(range(256)))
    return target, bundle.seal(target, [])


def failing(folder: Path, digest: str | None = None) -> list[str]:
    return [f.reason for f in bundle.look(folder, digest) if f.verdict == "fails"]


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


def remove(folder: Path, draw: random.Random) -> None:
    draw.choice([p for p in files(folder) if p.name != bundle.MANIFEST]).unlink()


def rename(folder: Path, draw: random.Random) -> None:
    path = draw.choice([p for p in files(folder) if p.name != bundle.MANIFEST])
    path.rename(path.with_name(f"{draw.randrange(10**6)}"))


def rename_run(folder: Path, draw: random.Random) -> None:
    told = json.loads((folder / "run.json").read_text())
    told["run"] = f"20260101T000000.{draw.randrange(1000):03}Z-{draw.randrange(16**4):04x}"
    (folder / "run.json").write_text(json.dumps(told))
    fit(folder)


def edit_manifest(folder: Path, draw: random.Random) -> None:
    manifest = json.loads((folder / bundle.MANIFEST).read_text())
    name = draw.choice(["run", "study", "commit", "dataset", "budget"])
    manifest["facts"][name] = f"another {draw.randrange(10**6)}"
    (folder / bundle.MANIFEST).write_text(json.dumps(manifest))


def edit_value(folder: Path, draw: random.Random) -> None:
    """Records and checksum are changed alike: only the digest knows."""
    lines = gzip.decompress((folder / "metrics.jsonl.gz").read_bytes()).splitlines()
    number = draw.randrange(len(lines))
    record = json.loads(lines[number])
    record["value"] = draw.random()
    lines[number] = json.dumps(record).encode()
    (folder / "metrics.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    fit(folder)


KINDS: list[Callable[[Path, random.Random], None]] = [
    flip, flip, flip, cut, swap, add, link, remove, rename, rename_run, edit_manifest, edit_value
]  # fmt: skip


def test_as_sealed_nothing_fails(sealed):
    assert failing(*sealed) == []
    (unknown,) = [f for f in bundle.look(sealed[0]) if f.verdict == "not tested"]
    assert "no --digest was given" in unknown.reason


@pytest.mark.parametrize("changes", [500, pytest.param(10_000, marks=pytest.mark.slow)])
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
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_symlink() or (path.is_file() and name not in whole):
            path.unlink()
    for name, content in whole.items():
        if not (folder / name).exists() or (folder / name).read_bytes() != content:
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("kind", [rename_run, edit_manifest, add, remove, rename, link])
def test_without_a_digest_what_the_files_contradict_is_found(sealed, tmp_path, kind):
    for seed in range(20):
        work = shutil.copytree(sealed[0], tmp_path / str(seed))
        kind(work, random.Random(seed))
        assert failing(work), kind.__name__


def test_a_bundle_of_another_version_is_refused(sealed, tmp_path):
    work = shutil.copytree(sealed[0], tmp_path / "newer")
    text = (work / bundle.MANIFEST).read_text()
    (work / bundle.MANIFEST).write_text(text.replace('"schema": 1', '"schema": 9', 1))
    with pytest.raises(BadInput, match="a bundle of version 9; this assay reads 1"):
        bundle.look(work)


def test_a_manifest_that_names_files_elsewhere_reads_none_of_them(sealed, tmp_path):
    work = shutil.copytree(sealed[0], tmp_path / "work")
    (tmp_path / "secret").write_text("secret")
    manifest = json.loads((work / bundle.MANIFEST).read_text())
    manifest["files"]["../secret"] = msgspec.to_builtins(bundle._mark(tmp_path / "secret"))
    (work / bundle.MANIFEST).write_text(json.dumps(manifest))
    assert failing(work) == ["missing: ../secret"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("failed in /srv/ann/src/kernel.py line 3", "failed in …/kernel.py line 3"),
        ("4,096 GB/s and tokens/s, 3/4 of it", "4,096 GB/s and tokens/s, 3/4 of it"),
        ("assay/attention/budget.py", "assay/attention/budget.py"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("--out /srv/s", "--out …/s"),
    ],
)
def test_paths_of_a_machine_are_redacted(text, wanted):
    assert redacted({"a": [text]}) == {"a": [wanted]}
