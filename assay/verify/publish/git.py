"""git as a program: refusals in words, and no question that nobody is there to answer."""

import os
import shutil
import subprocess
from pathlib import Path

from assay.errors import CannotRunHere

_TIMEOUT_S = 600


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it prints; where it fails, say why."""
    done = attempt(folder, *arguments)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise CannotRunHere(f"git {arguments[0]} failed in {folder}: {' '.join(lines[-4:])}")
    return done.stdout.strip()


def attempt(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run git in a folder, whatever comes of it. Bytes are never changed on the way."""
    if shutil.which("git") is None:
        raise CannotRunHere("git is not installed; install it, or publish with --to")
    settings = ("-c", "core.autocrlf=false", "-c", "core.safecrlf=false")
    return subprocess.run(
        ["git", *settings, "-C", str(folder), *arguments],
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def require_identity(folder: Path) -> None:
    """Refuse where git does not know whom a commit is by."""
    if attempt(folder, "var", "GIT_COMMITTER_IDENT").returncode != 0:
        raise CannotRunHere(
            "git does not know whom a commit is by; set user.name and user.email with git config"
        )
