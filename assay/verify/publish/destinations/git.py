"""A git repository: git:URL[#BRANCH] adds the bundle as the folder NAME, in a commit of its own."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from assay.errors import BadInput
from assay.verify.publish.git import attempt, git, require_identity


def place(address: str, name: str) -> str:
    url, branch = _split(address)
    return f"{name}/ on {branch or 'the default branch'} of {url}"


def send(bundle: Path, address: str, name: str) -> None:
    url, branch = _split(address)
    with TemporaryDirectory() as folder:
        clone = _clone(url, branch, Path(folder))
        if (clone / name).exists():
            raise BadInput(f"{url} has {name} already, and it is not written over")
        require_identity(clone)
        shutil.copytree(bundle, clone / name)
        git(clone, "add", "--force", "--", name)
        git(clone, "commit", "--quiet", "--message", f"{name}: a bundle of runs", "--", name)
        current = git(clone, "symbolic-ref", "--short", "HEAD")
        git(clone, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch or current}")


def fetch(address: str, name: str, target: Path) -> str | None:
    url, branch = _split(address)
    with TemporaryDirectory() as folder:
        stored = _clone(url, branch, Path(folder)) / name
        if not stored.is_dir():
            return f"{url} shows no {name} on that branch"
        shutil.copytree(stored, target)
    return None


def _split(address: str) -> tuple[str, str]:
    url, _, branch = address.partition("#")
    if not url or url.startswith("-") or branch.startswith("-"):
        raise BadInput(f"git:{address} names no repository; wanted git:URL or git:PATH[#BRANCH]")
    local = Path(url)
    return (str(local.resolve()) if local.is_dir() else url), branch


def _clone(url: str, branch: str, folder: Path) -> Path:
    """Clone the last commit of a branch; of one that is not there yet, an empty one from it."""
    clone = folder / "clone"
    git(folder, "clone", "--quiet", "--no-checkout", "--depth=1", "--no-single-branch", "--",
        f"file://{url}" if Path(url).is_dir() else url, str(clone))  # fmt: skip
    exists = branch and attempt(clone, "rev-parse", "--verify", f"origin/{branch}").returncode == 0
    if exists:
        git(clone, "checkout", "--quiet", "-B", branch, f"origin/{branch}")
    elif attempt(clone, "rev-parse", "--verify", "HEAD").returncode != 0:
        if branch:  # else the first commit is of the branch that the repository itself calls first
            git(clone, "checkout", "--quiet", "--orphan", branch)
    else:
        git(clone, "checkout", "--quiet", *(["-B", branch] if branch else []))
    return clone
