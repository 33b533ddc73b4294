"""The commit that a copy of a checkout was made from, proved by the digests of its files.

`python -m assay.commit_files` writes them to .commit-files, which travels with a copy to a machine
without the repository. There the commit's own text must have its name as its digest, the list the
digest of the tree that the text names, and each file the digest that the list gives it.
"""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

FILE = ".commit-files"
_CODE = "assay"  # the folder in which a file too many is a change too


@dataclass(frozen=True, kw_only=True)
class CopyState:
    """The commit of a copy; `differing` is empty where every file is as in the commit."""

    commit: str
    differing: tuple[str, ...]


def write(checkout: Path) -> Path:
    """Write the list of the checked-out commit; for a checkout with git."""
    text = _git(checkout, "cat-file", "commit", "HEAD")
    listing = _git(checkout, "ls-tree", "-r", "-z", "HEAD")
    file = checkout / FILE
    file.write_bytes(len(text).to_bytes(4, "big") + text + listing)
    return file


def read(checkout: Path) -> CopyState | str | None:
    """The state of a copy, the reason why its list proves nothing, or None without a list."""
    file = checkout / FILE
    if not file.is_file():
        return None
    content = file.read_bytes()
    end = 4 + int.from_bytes(content[:4], "big")
    text = content[4:end]
    try:
        entries = [_entry(line) for line in content[end:].split(b"\0") if line]
        tree = text.split(b"\n")[0].removeprefix(b"tree ").decode()
    except (ValueError, UnicodeDecodeError):
        return f"{FILE} is not a list of a commit's files"
    if _tree_digest(entries) != tree:
        return f"{FILE} does not list the files of the commit that it names"
    listed = {path for _, _, path in entries}
    differing = [path for _, digest, path in entries if _blob_digest(checkout / path) != digest]
    differing += sorted(_code_files(checkout) - listed)
    return CopyState(commit=_digest(b"commit", text), differing=tuple(differing))


def _entry(line: bytes) -> tuple[bytes, str, str]:
    about, path = line.split(b"\t", 1)
    mode, _, digest = about.split(b" ")
    return mode, digest.decode(), path.decode()


def _code_files(checkout: Path) -> set[str]:
    return {str(path.relative_to(checkout)) for path in (checkout / _CODE).rglob("*.py")}


def _blob_digest(path: Path) -> str | None:
    return _digest(b"blob", path.read_bytes()) if path.is_file() else None


def _tree_digest(entries: list[tuple[bytes, str, str]]) -> str:
    """As git computes it: of each folder's own list, in the order of names, a folder's with a
    slash."""
    folders: dict[str, list[tuple[bytes, str, str]]] = {}
    lines: dict[bytes, bytes] = {}
    for mode, digest, path in entries:
        name, _, rest = path.partition("/")
        if rest:
            folders.setdefault(name, []).append((mode, digest, rest))
        else:
            key = name.encode()
            lines[key] = mode + b" " + key + b"\0" + bytes.fromhex(digest)
    for name, inside in folders.items():
        key = name.encode()
        lines[key + b"/"] = b"40000 " + key + b"\0" + bytes.fromhex(_tree_digest(inside))
    return _digest(b"tree", b"".join(lines[key] for key in sorted(lines)))


def _digest(kind: bytes, content: bytes) -> str:
    return hashlib.sha1(kind + b" %d\0" % len(content) + content).hexdigest()


def _git(checkout: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(checkout), *arguments], capture_output=True, check=True
    ).stdout


if __name__ == "__main__":
    print(write(Path(__file__).parent.parent))
