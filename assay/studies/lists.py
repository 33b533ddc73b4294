"""Lists as a study's settings write them: entries between commas, without spaces or repeats.

Every function takes the text of one symbol and gives a tuple, or raises BadInput with the reason.
"""

import re
from collections.abc import Sequence

from assay.errors import BadInput, did_you_mean

POSITIVE = re.compile(r"[1-9][0-9]{0,8}")


def entries(text: str) -> tuple[str, ...]:
    """The entries as they are written; an empty text is an empty list."""
    values = tuple(text.split(",")) if text else ()
    for entry in values:
        if not entry:
            raise BadInput("the list has an empty entry; one comma stands between two entries")
        if entry != entry.strip():
            raise BadInput(f"the entry {entry!r} has spaces around it; wanted {entry.strip()!r}")
    refuse_repeats(values, entries=values)
    return values


def some_entries(text: str) -> tuple[str, ...]:
    """The entries of a list that must not be empty."""
    if not text:
        raise BadInput("the list is empty; wanted at least one entry")
    return entries(text)


def refuse_repeats(values: Sequence[object], *, entries: Sequence[str]) -> None:
    """Refuse two equal values, in the words of the entries they were read from."""
    first: dict[object, str] = {}
    for value, entry in zip(values, entries, strict=True):
        if value in first:
            raise BadInput(f"{entry!r} repeats {first[value]!r}; remove one of the two")
        first[value] = entry


def words(text: str, *, allowed: Sequence[str]) -> tuple[str, ...]:
    """Entries that are all among `allowed`."""
    values = some_entries(text)
    return tuple(word(entry, allowed=allowed) for entry in values)


def word(text: str, *, allowed: Sequence[str]) -> str:
    """One entry, among `allowed`."""
    if text not in allowed:
        hint = did_you_mean(text, allowed)
        raise BadInput(f"{text!r} is not one of {', '.join(allowed)}{hint and f'; {hint}'}")
    return text


def sizes(text: str) -> tuple[int, ...]:
    """Whole numbers from 1."""
    return tuple(_positive(entry) for entry in some_entries(text))


def heads(text: str) -> tuple[tuple[int, int, int | None], ...]:
    """Query heads and kv heads, written 8/2, and the head dimension of 8/2x256, None without."""
    return tuple(_heads(entry) for entry in some_entries(text))


def lengths(text: str) -> tuple[tuple[int, int], ...]:
    """Pairs of query length and key length; 128 stands for 128/128."""
    written = some_entries(text)
    values = tuple(_length_pair(entry) for entry in written)
    refuse_repeats(values, entries=written)
    return values


def _heads(entry: str) -> tuple[int, int, int | None]:
    query, slash, rest = entry.partition("/")
    if not slash:
        raise BadInput(f"{entry!r} is not query heads / kv heads, such as 8/8, 8/2 or 8/1x256")
    kv, cross, dim = rest.partition("x")
    pair = _positive(query), _positive(kv)
    if pair[0] % pair[1]:
        raise BadInput(
            f"{entry!r}: {query} query heads do not divide over {kv} kv heads; make the first a "
            "multiple of the second"
        )
    return (*pair, _positive(dim) if cross else None)


def _length_pair(entry: str) -> tuple[int, int]:
    query, slash, key = entry.partition("/")
    return _positive(query), _positive(key if slash else query)


def _positive(text: str) -> int:
    if not POSITIVE.fullmatch(text):
        raise BadInput(f"{text!r} is not a whole number from 1 to 999999999")
    return int(text)


def seeds(text: str) -> tuple[int, ...]:
    """Whole numbers from 0."""
    written = some_entries(text)
    for entry in written:
        if not re.fullmatch(r"[0-9]{1,9}", entry):
            raise BadInput(f"{entry!r} is not a whole number from 0 to 999999999")
    values = tuple(map(int, written))
    refuse_repeats(values, entries=written)
    return values


def number(text: str) -> float:
    """A number from 0, such as 6e-4."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise BadInput(f"{text!r} is not a number from 0, such as 6e-4")
    return value
