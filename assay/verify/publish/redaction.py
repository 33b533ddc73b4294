"""Names, places and secrets that are nobody's business: absolute paths, the names of this machine
and its user, addresses, and keys of the forms that well-known services give out."""

import getpass
import re
import socket
from functools import cache
from typing import Any

from assay.records.foreign_text import SECRET, without_secrets

ADDRESS, USER, HOST = "<e-mail>", "<user>", "<host>"

_BARE_KEY = re.compile(r"(?i)[0-9a-f]{40}")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b")
# A path from the root with at least one folder; of it the last part stays, unless it is somebody's.
_HOME = re.compile(r"(?<![\w./~-])(?:file://)?/(?:home|Users)/[\w.+@-]+/?(?![\w.+@/-])")
_PATH = re.compile(r"(?<![\w./~-])(?:file://)?(?:/[\w.+@-]+)+/([\w.+@-]+)/?")
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\(?:[^\\\s:;\"']+\\)+([^\\\s:;\"']+)")
_SHORT = 4  # a name of fewer letters may be any word


def redacted(value: Any) -> Any:
    """A copy of what JSON can hold, without them. Keys that would become one are numbered."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, list):
        return [redacted(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    copy: dict[str, Any] = {}
    for key, entry in value.items():
        name, number = redacted_text(key), 2
        while name in copy:
            name, number = f"{redacted_text(key)} ({number})", number + 1
        is_key = "key" in key.lower() and isinstance(entry, str) and _BARE_KEY.fullmatch(entry)
        copy[name] = SECRET if is_key else redacted(entry)
    return copy


def redacted_text(text: str) -> str:
    """A text without them."""
    text = _ADDRESS.sub(ADDRESS, without_secrets(text))
    text = _WINDOWS_PATH.sub(r"…\\\1", _PATH.sub(r"…/\1", _HOME.sub(f"…/{USER}", text)))
    for pattern, stand_in in _names_here():
        text = pattern.sub(stand_in, text)
    return text


@cache
def _names_here() -> list[tuple[re.Pattern[str], str]]:
    """This machine's name wherever it stands, and its user's as a part of a path."""
    names = []
    host, user = socket.gethostname(), _login()
    if len(host) >= _SHORT and host != "localhost":
        names.append((re.compile(rf"\b{re.escape(host)}\b"), HOST))
    if user:
        part = rf"(?<=[/\\~]){re.escape(user)}(?![\w.-])"
        names.append((re.compile(part), USER))
    return names


def _login() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an account without a name, as in some containers
        return None
