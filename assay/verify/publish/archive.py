"""An archive: results of runs by name in a git repository of their own, which only ever grows.

    NAME/json/              run.json, metrics.jsonl.gz, manifest.json, results by kind, tables
    NAME/plots/             figures, 300 DPI
    NAME/logs/              what the stages printed
    NAME/models/            manifests of what training saved
    NAME/fim_maps/ NAME/interaction_maps/
    NAME/NAME_summary.md    what it is, what is left out and why

A tag NAME-YYYYMMDD stands for the commit. A name is never written over: with the same content
nothing is done, with another it is refused.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from assay.errors import BadInput
from assay.host import CHECKOUT
from assay.records.durable import make_folder
from assay.verify.publish.archive_summary import FOLDERS, LeftOut, summary
from assay.verify.publish.bundle import SealedBundle
from assay.verify.publish.git import attempt, git, require_identity
from assay.verify.publish.manifest import mark
from assay.verify.publish.redaction import redacted_text

LARGEST_BYTES = 50_000_000
_NAME = re.compile(r"[A-Za-z0-9][\w+-]*(?:\.[\w+-]+)*")
_KEEP = ".gitkeep"  # git knows no empty folder
_MODELS = ("last.json", "best.json", "config.json")  # beside weights, what says which they are


@dataclass(frozen=True, kw_only=True)
class Archived:
    """A name in an archive; `tag` is None where it was there with the same content."""

    repository: Path
    name: str
    tag: str | None
    commit: str
    left_out: tuple[LeftOut, ...] = ()


def check(repository: Path, name: str) -> None:
    """Refuse a name or a place that nothing may be written to, before anything is."""
    if not _NAME.fullmatch(name) or name.endswith(".lock"):
        raise BadInput(
            f"--name {name!r} cannot name a folder and a tag; use letters, digits, - _ + and dots"
        )
    if repository.resolve() == CHECKOUT.resolve():
        raise BadInput(f"{repository} is assay's own checkout; an archive is a repository alone")
    if repository.exists() and not repository.is_dir():
        raise BadInput(f"{repository} is a file; --archive wants a git repository, or a new folder")
    if _is_new(repository):
        return
    if not (repository / ".git").exists():
        raise BadInput(f"{repository} holds files and is no git repository; name another folder")
    if git(repository, "status", "--porcelain"):
        raise BadInput(
            f"{repository} holds work that is not committed, which is left alone; commit it first"
        )


def write(sealed: SealedBundle, run: Path, repository: Path, name: str) -> Archived:
    """Commit the results of a run, and tag the commit."""
    check(repository, name)
    with TemporaryDirectory() as temporary:
        made = Path(temporary) / name
        left_out = tuple(_fill(made, sealed, run))
        (made / f"{name}_summary.md").write_text(summary(sealed, made, left_out))
        if (repository / name).exists():
            return _unchanged(made, repository, name, left_out)
        if new := _is_new(repository):
            git(make_folder(repository), "init", "--quiet")
        try:
            require_identity(repository)
            return _commit(made, repository, name, left_out)
        except BaseException:
            _take_back(repository, name, new)
            raise


def _commit(made: Path, repository: Path, name: str, left_out: tuple[LeftOut, ...]) -> Archived:
    shutil.copytree(made, repository / name)
    git(repository, "add", "--force", "--", name)  # whatever is ignored there
    git(repository, "commit", "--quiet", "--message", f"{name}: results of a run", "--", name)
    tag = _free_tag(repository, f"{name}-{datetime.now(UTC):%Y%m%d}")
    git(repository, "tag", tag)
    commit = git(repository, "rev-parse", "HEAD")
    return Archived(repository=repository, name=name, tag=tag, commit=commit, left_out=left_out)


def _unchanged(made: Path, repository: Path, name: str, left_out: tuple[LeftOut, ...]) -> Archived:
    here, there = (
        {p.relative_to(f).as_posix(): mark(p).sha256 for p in f.rglob("*") if p.is_file()}
        for f in (made, repository / name)
    )
    if here != there:
        raise BadInput(
            f"{repository / name} is there with other content, and is not written over; give "
            "another name with --name"
        )
    commit = git(repository, "rev-parse", "HEAD")
    return Archived(repository=repository, name=name, tag=None, commit=commit, left_out=left_out)


def _take_back(repository: Path, name: str, new: bool) -> None:
    """Leave the repository as it was."""
    if new:
        shutil.rmtree(repository, ignore_errors=True)
    elif attempt(repository, "cat-file", "-e", f"HEAD:{name}").returncode != 0:
        attempt(repository, "rm", "-r", "--cached", "--quiet", "--", name)
        shutil.rmtree(repository / name, ignore_errors=True)


def _free_tag(repository: Path, tag: str) -> str:
    taken = set(git(repository, "tag", "--list", f"{tag}*").splitlines())
    number, free = 2, tag
    while free in taken:
        free, number = f"{tag}.{number}", number + 1
    return free


def _is_new(repository: Path) -> bool:
    return not repository.exists() or not any(repository.iterdir())


def _fill(target: Path, sealed: SealedBundle, run: Path) -> Iterator[LeftOut]:
    """Write all files but the summary; what is too large is left out."""
    for folder in FOLDERS:
        make_folder(target / folder)
    for source in sorted((*sealed.folder.glob("*.json*"), *sealed.folder.glob("tables/*.csv"))):
        yield from _copy(source, target / "json" / source.name)
    for source in sorted(sealed.folder.glob("figures/*.png")):
        yield from _copy(source, target / "plots" / source.name)
    for source in sorted(run.glob("stages/*/*.log")):
        yield from _copy_text(source, target / "logs" / f"{source.parent.name}.{source.name}")
    for source in sorted(run.glob("stages/*/cells/*/**/*")):
        place = "-".join(source.relative_to(run / "stages").parts)
        if source.name in _MODELS and source.is_file():
            yield from _copy_text(source, target / "models" / place)
        elif source.suffix == ".safetensors":
            yield LeftOut(name=place, mark=mark(source), why="weights are not committed")
    for folder in FOLDERS:
        if not any((target / folder).iterdir()):
            (target / folder / _KEEP).touch()


def _copy(source: Path, target: Path) -> Iterator[LeftOut]:
    shutil.copyfile(source, target)
    yield from _drop_large(target)


def _copy_text(source: Path, target: Path) -> Iterator[LeftOut]:
    """Copy a text without names and paths; an empty one is not worth a file."""
    if text := redacted_text(source.read_text(errors="replace")):
        target.write_text(text)
        yield from _drop_large(target)


def _drop_large(path: Path) -> Iterator[LeftOut]:
    """Remove a file that is too large for a commit, and say which it was."""
    if path.stat().st_size > LARGEST_BYTES:
        name, why = f"{path.parent.name}/{path.name}", f"larger than {LARGEST_BYTES:,} bytes"
        yield LeftOut(name=name, mark=mark(path), why=why)
        path.unlink()
