"""Hostile values: numbers, texts and names that a file may hold in place of what was meant."""

import random
from typing import Any

CANARY = "campaign-canary"  # the name of a file above the folder that is read
_CODE = "__import__('os').system('true')"
NUMBERS = (
    0, 1, -1, 7, 255, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63,
    -(2**63) - 1, 2**64 - 1, 2**64, 10**30, 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
NAMES = (
    f"../{CANARY}", f"../../{CANARY}", "/etc/passwd", "/dev/zero", "/proc/self/mem", "..", ".", "/",
    "\\\\host\\x", "a/b", "C:\\x", "CON", "-rf", "$(id)", "`id`", "x.py", "~", "file:///etc/passwd",
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a\0b", "\n", "\r\n", "\t", '"', "'", "\\", "\\u0000", "\ud800", "\ufeff",
    "\u202e", "e\u0301", "\U0001f600", "nan", "NaN", "inf", "-inf", "1e999", "1_000", "0x10", "٣",
    "null", "true", "None", "{}", "[]", "%s%n", "{0}", "{x.__class__}", _CODE, "= 1", "]]>",
    "\x1b]52;c;AAAA\x07", "2026-13-45T99:99:99Z", "0000-00-00", "9999-12-31T23:59:59.999Z",
    "x" * 5_000, "9" * 5_000, "a." * 2_000, "-" * 300,
)  # fmt: skip
PICKLE = b"\x80\x04cos\nsystem\n(S'true'\ntR."
DEPTHS = (60, 900, 5_000, 100_000)


def text(draw: random.Random) -> str:
    """A text that is a name, or looks like something else than it is."""
    return draw.choice(draw.choice((NAMES, TEXTS)))


def value(draw: random.Random) -> Any:
    """Anything that JSON can hold, and some that it cannot."""
    kind = draw.randrange(8)
    if kind < 3:
        return draw.choice(NUMBERS)
    if kind < 6:
        return text(draw)
    return draw.choice((None, True, False, [], {}, [[]], {"": {}}, [None] * 50, {"_type": "x"}))


def nested(draw: random.Random) -> str:
    """JSON that is nested more deeply than anybody nests."""
    depth = draw.choice(DEPTHS)
    start, end = draw.choice((("[", "]"), ('{"a":', "}")))
    return start * depth + "1" + (end * depth if draw.random() < 0.8 else "")
