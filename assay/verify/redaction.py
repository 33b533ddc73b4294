"""Names and places that are nobody's business: absolute paths and the name of this machine."""

import re
import socket
from typing import Any

# A path from the root with at least one folder; of it the last part stays.
_PATH = re.compile(r"(?<![\w.:/~-])(?:/[\w.+@-]+)+/([\w.+@-]+)/?")
_SHORT = 4  # a host's name of fewer letters may be any word


def redacted(value: Any) -> Any:
    """A copy of what JSON can hold, without them."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [redacted(entry) for entry in value]
    if isinstance(value, dict):
        return {_text(key): redacted(entry) for key, entry in value.items()}
    return value


def _text(text: str) -> str:
    text, host = _PATH.sub(r"…/\1", text), socket.gethostname()
    if len(host) >= _SHORT and host != "localhost":
        text = re.sub(rf"\b{re.escape(host)}\b", "<host>", text)
    return text
