"""Lines that a worker alone could have written, though others can write into its file.

The runner leaves a key beside the worker's request. The worker takes it away before it loads any
code of a user's, and keeps only what signs. A line is JSON, a space, and the HMAC-SHA256 of all
lines until then, so none can be added, changed, left out or moved.
"""

import hmac
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KEY_FILE = "key"
_new, _same = hmac.new, hmac.compare_digest  # bound before any code of a user's is loaded


class Signer:
    """Signs one line after the other."""

    def __init__(self, key: bytes) -> None:
        self._code = _new(key, digestmod="sha256")

    def signed(self, content: bytes) -> bytes:
        """The line of a content, with its end."""
        self._code.update(content + b"\n")
        return content + b" " + self._code.hexdigest().encode() + b"\n"


@dataclass(frozen=True)
class Forged:
    """A line that the worker did not write."""

    line: bytes

    def __str__(self) -> str:
        text = self.line[:60].decode(errors="replace")
        return (
            f"its process wrote a line into the cell's results that is not assay's ({text!r}); "
            "nothing of it is believed"
        )


def new_key(folder: Path) -> bytes:
    """Leave a new key in a folder, for the worker to take."""
    key = secrets.token_bytes(32)
    (folder / KEY_FILE).write_bytes(key)
    return key


def taken_key(folder: Path) -> bytes:
    """Take the key away, so that no one else reads it there."""
    key = (folder / KEY_FILE).read_bytes()
    (folder / KEY_FILE).unlink()
    return key


def contents(written: bytes, key: bytes) -> Iterator[bytes | Forged]:
    """The content of each line in turn; a last line without an end is left out."""
    code = _new(key, digestmod="sha256")
    for line in written.split(b"\n")[:-1]:
        content, _, mark = line.rpartition(b" ")
        after = code.copy()
        after.update(content + b"\n")
        if _same(after.hexdigest().encode(), mark):
            code = after
            yield content
        else:
            yield Forged(line)


def unsigned(line: bytes) -> bytes:
    """The content of a line, for those who only show it."""
    return line.rpartition(b" ")[0]
