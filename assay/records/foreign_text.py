"""Text that others wrote, before it is kept or shown: messages of exceptions, printed lines, names.

Such a text may hold sequences that a terminal obeys (OSC 52 writes to the clipboard), marks that
reverse the letters after them, a key, or megabytes. Every measurement passes its texts through here
when it is made and when it is read; tables, pages and the terminal do the same with theirs.
"""

import os
import re
from functools import cache, lru_cache
from typing import Any, TextIO
from unicodedata import category

SECRET = "<secret>"
MOST_CHARACTERS = 2_000  # of a message
_KEPT = 1_500  # of a longer one: with a few words before it, it is still no longer one
_LOOKED_AT = 8_000  # of it, so that a key is seen whole where the cut goes through it

# Orders with a text of their own, as OSC has, and all others but CSI: colours, cursor, screen.
_ORDERS = (
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b(?!\[)[ -/]*[0-~]?"
)
_OTHERS_ORDERS = re.compile(_ORDERS)
_ESCAPES = re.compile(rf"{_ORDERS}|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE = ("Cc", "Cf", "Cs")  # controls; marks of direction and of no width; half a character

_TOKENS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        hf_[A-Za-z0-9]{20,}               # Hugging Face
      | sk-[A-Za-z0-9_-]{20,}             # OpenAI and others
      | gh[pousr]_[A-Za-z0-9]{20,}        # GitHub
      | github_pat_[A-Za-z0-9_]{20,}
      | A[KS]IA[0-9A-Z]{16}               # AWS
      | xox[a-z]-[A-Za-z0-9-]{10,}        # Slack
      | wandb_v\d+_[A-Za-z0-9_]{20,}
      | eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?  # a JSON web token
      | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----(?s:.*?)(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    )""",
    re.VERBOSE,
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[\w.~+/-]{8,}=*")
_HEX_KEY = re.compile(r"(?i)(key\W{1,6})[0-9a-f]{40}(?![0-9a-f])")
_IN_URL = re.compile(r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)")
_SECRET_NAME = r"[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD)"
_ASSIGNED = re.compile(rf"\b({_SECRET_NAME}['\"]?\s?[=:]\s?['\"]?)[^\s'\",;]{{8,}}")
# Every form above has a part, in lower case, that is here: nearly all texts have none of them.
_PARTS = (
    *("hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "akia", "asia", "xox"),
    *("wandb_v", "eyj", "-----begin", "bearer", "://", "key", "token", "secret", "password"),
)
_SHORTEST_VALUE = 8  # of a variable; a shorter one may be any word


def visible(text: str) -> str:
    """A text without escape sequences, its lines ended by newlines alone, with a mark in place of
    every other character that cannot be seen."""
    if text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text))
    return "".join(
        "\ufffd" if category(letter) in _INVISIBLE and letter not in "\n\t" else letter
        for letter in text
    )


def without_secrets(text: str) -> str:
    """A text without keys of the forms that well-known services give out, and without the values
    of this process's variables that are named as keys."""
    if any(map(text.lower().__contains__, _PARTS)):
        text = _HEX_KEY.sub(rf"\1{SECRET}", _TOKENS.sub(SECRET, text))
        text = _IN_URL.sub(SECRET, _BEARER.sub(rf"\1{SECRET}", text))
        text = _ASSIGNED.sub(rf"\1{SECRET}", text)
    values = _secret_values()
    return values.sub(SECRET, text) if values else text


def message(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text as a record keeps it: visible, without secrets, and no longer than `most`; of a longer
    one the beginning."""
    if len(text) <= most:
        return _cleaned(text)
    kept = _cleaned(text[: most + _LOOKED_AT])[: most * _KEPT // MOST_CHARACTERS]
    more = f"{len(text) - len(kept):,} more characters"
    return f"{kept} … ({more}; where a stage ran, its stderr.log has more)"


def first_line(error: BaseException, most: int) -> str:
    """The first line of an exception's message, of no more than `most` characters."""
    return _cleaned(str(error).strip()[:_LOOKED_AT]).partition("\n")[0][:most]


def messages(value: Any, most: int) -> Any:
    """A copy of what JSON can hold, with every text in it as a record keeps it."""
    if isinstance(value, str):
        return message(value, most)
    if isinstance(value, list | tuple):
        return [messages(entry, most) for entry in value]
    if isinstance(value, dict):
        return {visible(str(key)): messages(entry, most) for key, entry in value.items()}
    return value


@lru_cache(maxsize=1024)  # many records have the same reason or source
def _cleaned(text: str) -> str:
    return without_secrets(visible(text))


@cache
def _secret_values() -> re.Pattern[str] | None:
    named = re.compile(_SECRET_NAME, re.IGNORECASE)
    values = {value for name, value in os.environ.items() if named.fullmatch(name)}
    long = sorted((v for v in values if len(v) >= _SHORTEST_VALUE), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, long))) if long else None


class GuardedStream:
    """A stream to a terminal, for texts that passed nothing else here: it leaves out all orders but
    those of CSI, which our own tables and bars need."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_OTHERS_ORDERS.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
