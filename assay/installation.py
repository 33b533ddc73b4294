"""Place and name of assay: a checkout, or the files that a wheel installed.

A wheel carries Kconfig, defconfigs/ and pyproject.toml of the checkout that it was built from in
`assay/_data` (setup.py). `own_file` finds them in both; nothing else may look for them.
"""

import base64
import hashlib
import importlib.metadata
import subprocess
import tomllib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
CHECKOUT = PACKAGE.parent  # the folder around the package, in a wheel's case of many packages
_CARRIED = PACKAGE / "_data"


def is_wheel() -> bool:
    """True where assay's files come out of a wheel."""
    return _CARRIED.is_dir()


def own_file(name: str) -> Path:
    """A file or folder at the top of the checkout, or what the wheel carries in its place."""
    return (_CARRIED if is_wheel() else CHECKOUT) / name


@cache
def distribution() -> str:
    """The name that pip knows assay by: that of pyproject.toml."""
    return tomllib.loads(own_file("pyproject.toml").read_text())["project"]["name"]


def how_to_add(extra: str) -> str:
    """The command that installs what an extra of pyproject.toml brings."""
    return f"pip install '{distribution()}[{extra}]'"


@cache
def is_repository() -> bool:
    """True where git keeps this very checkout, not a folder around it, such as that of a virtual
    environment: its commit would say nothing about assay."""
    command = ["git", "-C", str(CHECKOUT), "rev-parse", "--show-toplevel"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and Path(done.stdout.rstrip("\n")) == CHECKOUT.resolve()


def wheel_files() -> tuple[str, tuple[str, ...]] | None:
    """The digest of a wheel's list of its files, and those that are not as the list says.

    None where there is no list. The digest is the SHA-256 of the sorted lines of RECORD that are
    about our files, so that it can be computed from the wheel too (docs/install.md).
    """
    try:
        record = importlib.metadata.distribution(distribution()).read_text("RECORD") or ""
    except importlib.metadata.PackageNotFoundError:
        return None
    prefix = f"{PACKAGE.name}/"
    lines = sorted(x for x in record.splitlines() if x.startswith(prefix) and ",sha256=" in x)
    if not lines:
        return None
    listed = dict(line.rsplit(",", 2)[:2] for line in lines)
    differing = [name for name, digest in listed.items() if _digest(CHECKOUT / name) != digest]
    present = {str(path.relative_to(CHECKOUT)) for path in PACKAGE.rglob("*.py")}
    differing += sorted(present - set(listed))
    content = "".join(f"{line}\n" for line in lines).encode()
    return hashlib.sha256(content).hexdigest(), tuple(differing)


def _digest(file: Path) -> str | None:
    """A file's digest as RECORD writes it."""
    if not file.is_file():
        return None
    digest = hashlib.sha256(file.read_bytes()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
