"""Numbers as people read them: four significant digits, thousands set apart."""

import math
from typing import Any

DASH = "—"  # an unknown value; zero is a measurement

_SMALLEST_PLAIN = 1e-3
_LARGEST_PLAIN = 1e9


def number(value: float) -> str:
    """`value` to four significant digits; whole numbers below a thousand million in full."""
    if not math.isfinite(value):  # a quotient of numbers that are far apart
        return str(value)
    size = abs(value)
    if size < _LARGEST_PLAIN and float(value).is_integer():
        return f"{int(value):,}"
    if size < _SMALLEST_PLAIN or size >= _LARGEST_PLAIN:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    places = 3 - math.floor(math.log10(size))
    return f"{round(value, places):,.{max(places, 0)}f}"


def tick(value: float) -> str:
    """A value on an axis, without the zeros that `number` fills up with."""
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def size_in_bytes(count: int) -> str:
    """A number of bytes in the largest binary unit that leaves a whole part."""
    power = min(max(count.bit_length() - 1, 0) // 10, 4)
    return f"{number(count / 1024**power)} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def counted(count: int, noun: str) -> str:
    """A number of things: 1 cell, 2 cells."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def plain(value: Any, *, name: str = "") -> str:
    """Plain data of run.json as text; `name` tells sizes in bytes from other numbers."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("bytes"):
        return size_in_bytes(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(item, name=str(key))}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(plain(item, name=name) for item in value)
    return str(value)
