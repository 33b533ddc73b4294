"""Which calls of a model are captured, how much of each, and how much the store may hold."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any

from assay.captures.formats import FORMATS
from assay.captures.manifest import MODES, Mode, Scalar
from assay.errors import BadInput

GIB = 1 << 30
_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Numbers:
    """Whole numbers told as `0:4`, `0,3,7`, `2:` or `::4`: those of Python's slices, and lists."""

    parts: tuple[range, ...]

    def __contains__(self, number: object) -> bool:
        return any(number in part for part in self.parts)

    def __str__(self) -> str:
        return ",".join(_told(part) for part in self.parts)

    def below(self, size: int) -> list[int]:
        """Those smaller than `size`, in order, each once."""
        found = {
            n for part in self.parts for n in range(part.start, min(part.stop, size), part.step)
        }
        return sorted(found)


Chosen = Numbers | str | int | Iterable[int] | None


@dataclass(frozen=True, kw_only=True)
class CaptureOptions:
    """What to capture. All that is given must hold; with nothing given, every call is taken.

    Steps count calls of the whole model from 0. `layers`, `steps`, `heads` and `rows` are numbers
    ("0:4", "0,3,7", "::4", a list or a range); `positions` is "from:to". `heads` are those of k and
    v: every query head that reads one of them comes along.
    """

    every: int = 1  # steps that this divides
    first: int | None = None  # steps below this
    steps: Chosen = None
    layers: Chosen = None
    sites: str | None = None  # patterns such as *.self_attn, separated by commas
    predicate: Callable[[int, int, str], bool] | None = None  # of step, layer and site
    mode: Mode = "full"
    max_bytes: int | None = None  # of files that one recording writes
    max_records: int | None = None
    heads: Chosen = None
    positions: str | tuple[int, int] | None = None
    rows: Chosen = None
    deltas: bool = True  # of a cache, only what changed since the record before
    outputs: bool = True  # also what the attention gave
    form: str = "safetensors"
    queue_bytes: int = GIB  # what may wait for the disk in memory
    queue_records: int = 4096
    wait_s: float = 0.0  # the longest that a call of the model may be held up where that is full
    sync: bool = True  # wait until the disk has a record before listing it
    _sites: dict[tuple[int, str], bool] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name in ("steps", "layers", "heads", "rows"):
            object.__setattr__(self, name, numbers(getattr(self, name), name))
        object.__setattr__(self, "positions", _stretch(self.positions))
        for name in ("every", "first", "max_bytes", "max_records", "queue_bytes", "queue_records"):
            _check_count(name, getattr(self, name))
        _check_one_of("mode", self.mode, MODES)
        _check_one_of("form", self.form, FORMATS)
        if not (isinstance(self.wait_s, int | float) and 0 <= self.wait_s < math.inf):
            raise BadInput(f"wait_s {self.wait_s!r} is not a number of seconds from 0 on")
        if self.predicate is not None and not callable(self.predicate):
            raise BadInput("predicate is a function of step, layer and site, or None")
        if self.sites is not None and not (isinstance(self.sites, str) and self.sites.strip(", ")):
            raise BadInput(f"sites {self.sites!r} is no pattern; say *.self_attn, or leave it out")

    def wants(self, step: int, layer: int, site: str) -> bool:
        """Whether this call is to be captured, told without looking at any tensor."""
        return (
            step % self.every == 0
            and (self.first is None or step < self.first)
            and (self.steps is None or step in self.steps)
            and self._wants_site(layer, site)
            and (self.predicate is None or bool(self.predicate(step, layer, site)))
        )

    def _wants_site(self, layer: int, site: str) -> bool:
        """Asked at every call of every site, so each answer is kept."""
        found = self._sites.get((layer, site))
        if found is None:
            patterns = [part.strip() for part in (self.sites or "*").split(",") if part.strip()]
            found = (self.layers is None or layer in self.layers) and any(
                fnmatchcase(site, pattern) for pattern in patterns
            )
            self._sites[layer, site] = found
        return found

    @property
    def cuts(self) -> bool:
        """Whether parts of tensors are left out."""
        return any(value is not None for value in (self.heads, self.positions, self.rows))

    def described(self) -> dict[str, Scalar]:
        """What differs from the defaults, for the manifest."""
        found: dict[str, Scalar] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if not one.init or value == one.default:
                continue
            plain = isinstance(value, bool | int | float | str)
            if one.name == "positions":
                found[one.name] = f"{value[0]}:{value[1]}"
            elif one.name == "predicate":
                found[one.name] = getattr(value, "__qualname__", type(value).__name__)
            else:
                found[one.name] = value if plain else str(value)
        return found


def numbers(given: Chosen, what: str) -> Numbers | None:
    """Numbers from any form that they are given in."""
    if given is None or isinstance(given, Numbers):
        return given
    if isinstance(given, str):
        parts = [_part(part.strip(), given, what) for part in given.split(",") if part.strip()]
    elif isinstance(given, range):
        parts = [given]
    else:
        several = [given] if isinstance(given, int) else list(given)
        parts = [range(n, n + 1) for n in several if _is_count(n, given, what)]
    if not parts or any(part.start < 0 or part.step < 1 for part in parts):
        raise BadInput(f"{what} {given!r} names no number; say 0:4, or 0,3,7, or leave it out")
    return Numbers(tuple(parts))


def _part(text: str, whole: str, what: str) -> range:
    pieces = text.split(":")
    if len(pieces) > 3 or any(piece and not piece.isdecimal() for piece in pieces):
        raise BadInput(
            f"{what} {whole!r}: {text!r} is not a whole number, from:to or from:to:every"
        )
    low = int(pieces[0] or 0)
    if len(pieces) == 1:
        return range(low, low + 1)
    step = int(pieces[2] or 1) if len(pieces) == 3 else 1
    high = int(pieces[1]) if pieces[1] else _ENDLESS
    if step < 1 or high <= low:
        raise BadInput(f"{what} {whole!r}: {text!r} names no number; `to` itself is left out")
    return range(low, high, step)


def _told(part: range) -> str:
    if len(part) == 1 and part.step == 1:
        return str(part.start)
    end = "" if part.stop >= _ENDLESS else part.stop
    return f"{part.start}:{end}" + (f":{part.step}" if part.step != 1 else "")


def _is_count(number: Any, given: Any, what: str) -> bool:
    if isinstance(number, bool) or not hasattr(number, "__index__") or number < 0:
        raise BadInput(f"{what} {given!r}: {number!r} is not a whole number from 0 on")
    return True


def _stretch(given: Any) -> tuple[int, int] | None:
    """`positions` as first and end."""
    if given is None:
        return None
    if isinstance(given, str):
        given = given.split(":")
    try:
        first, end = (int(part) for part in given)
    except (TypeError, ValueError):
        first, end = 0, 0
    if not 0 <= first < end:
        raise BadInput(f"positions {given!r} is not from:to, such as 0:128")
    return first, end


def _check_count(name: str, value: Any) -> None:
    if value is None and name in ("first", "max_bytes", "max_records"):
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"{name} {value!r} is not a whole number from 1 on")


def _check_one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise BadInput(f"{name} {value!r} is not one of {', '.join(allowed)}")
