"""Options of a recording: which calls of a model, how much of each, and how much is stored."""

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
class NumberSet:
    """Whole numbers written as `0:4`, `0,3,7`, `2:` or `::4`: Python's slices, and lists."""

    ranges: tuple[range, ...]

    def __contains__(self, number: object) -> bool:
        return any(number in part for part in self.ranges)

    def __str__(self) -> str:
        return ",".join(_range_text(part) for part in self.ranges)

    def below(self, size: int) -> list[int]:
        """Return the members smaller than `size`, in order, each once."""
        shortened = (range(r.start, min(r.stop, size), r.step) for r in self.ranges)
        return sorted({number for part in shortened for number in part})


Numbers = NumberSet | str | int | Iterable[int] | None


@dataclass(frozen=True, kw_only=True)
class CaptureOptions:
    """Choice of what to capture. All conditions must hold; without any, every call is captured.

    Steps count calls of the whole model from 0. `layers`, `steps`, `heads` and `rows` are numbers
    ("0:4", "0,3,7", "::4", a list or a range); `positions` is "from:to". `heads` are those of k and
    v: every query head that reads one of them comes along.
    """

    every: int = 1  # steps that this divides
    first: int | None = None  # steps below this
    steps: Numbers = None
    layers: Numbers = None
    sites: str | None = None  # patterns such as *.self_attn, separated by commas
    predicate: Callable[[int, int, str], bool] | None = None  # of step, layer and site
    mode: Mode = "full"
    max_bytes: int | None = None  # of files that one recording writes
    max_records: int | None = None
    heads: Numbers = None
    positions: str | tuple[int, int] | None = None
    rows: Numbers = None
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
            object.__setattr__(self, name, number_set(getattr(self, name), name))
        object.__setattr__(self, "positions", _stretch(self.positions))
        for name in ("every", "first", "max_bytes", "max_records", "queue_bytes", "queue_records"):
            _check_count(name, getattr(self, name))
        for name, value, allowed in (("mode", self.mode, MODES), ("form", self.form, FORMATS)):
            if value not in allowed:
                raise BadInput(f"{name} {value!r} is not one of {', '.join(allowed)}")
        if not (isinstance(self.wait_s, int | float) and 0 <= self.wait_s < math.inf):
            raise BadInput(f"wait_s {self.wait_s!r} is not a number of seconds from 0 on")
        if self.predicate is not None and not callable(self.predicate):
            raise BadInput("predicate is a function of step, layer and site, or None")
        if self.sites is not None and not (isinstance(self.sites, str) and self.sites.strip(", ")):
            raise BadInput(f"sites {self.sites!r} is no pattern; say *.self_attn, or leave it out")

    def wants(self, step: int, layer: int, site: str) -> bool:
        """Tell whether a call is to be captured, without looking at any tensor."""
        return (
            self.wants_step(step)
            and self._wants_site(layer, site)
            and (self.predicate is None or bool(self.predicate(step, layer, site)))
        )

    def wants_step(self, step: int) -> bool:
        """Tell whether calls of a step may be captured, as far as the step alone decides."""
        return (
            step % self.every == 0
            and (self.first is None or step < self.first)
            and (self.steps is None or step in self.steps)
        )

    def _wants_site(self, layer: int, site: str) -> bool:
        """Asked at every call of every site, so each answer is kept."""
        wanted = self._sites.get((layer, site))
        if wanted is None:
            wanted = self.layers is None or layer in self.layers
            wanted = wanted and (self.sites is None or matches(site, self.sites))
            self._sites[layer, site] = wanted
        return wanted

    @property
    def cuts(self) -> bool:
        """True where parts of tensors are left out."""
        return any(value is not None for value in (self.heads, self.positions, self.rows))

    def described(self) -> dict[str, Scalar]:
        """Return what differs from the defaults, in plain values for the manifest."""
        described: dict[str, Scalar] = {}
        for option in fields(self):
            value = getattr(self, option.name)
            if not option.init or value == option.default:
                continue
            if option.name == "positions":
                value = f"{value[0]}:{value[1]}"
            elif option.name == "predicate":
                value = getattr(value, "__qualname__", type(value).__name__)
            plain = isinstance(value, bool | int | float | str)
            described[option.name] = value if plain else str(value)
        return described


def matches(site: str, patterns: str) -> bool:
    """Tell whether a path fits one of some patterns, which are separated by commas."""
    return any(fnmatchcase(site, part.strip()) for part in patterns.split(",") if part.strip())


def number_set(value: Numbers, option: str) -> NumberSet | None:
    """Return the numbers of `option` from any form that they may be written in."""
    if value is None or isinstance(value, NumberSet):
        return value
    if isinstance(value, str):
        ranges = [_range(part.strip(), value, option) for part in value.split(",") if part.strip()]
    elif isinstance(value, range):
        ranges = [value]
    else:
        numbers = [value] if isinstance(value, int) else list(value)
        for number in numbers:
            if isinstance(number, bool) or not hasattr(number, "__index__") or number < 0:
                raise BadInput(f"{option} {value!r}: {number!r} is not a whole number from 0 on")
        ranges = [range(number, number + 1) for number in numbers]
    if not ranges or any(part.start < 0 or part.step < 1 for part in ranges):
        raise BadInput(f"{option} {value!r} names no number; say 0:4, or 0,3,7, or leave it out")
    return NumberSet(tuple(ranges))


def _range(text: str, whole: str, option: str) -> range:
    pieces = text.split(":")
    if len(pieces) > 3 or any(piece and not piece.isdecimal() for piece in pieces):
        raise BadInput(
            f"{option} {whole!r}: {text!r} is not a whole number, from:to or from:to:every"
        )
    low = int(pieces[0] or 0)
    if len(pieces) == 1:
        return range(low, low + 1)
    step = int(pieces[2] or 1) if len(pieces) == 3 else 1
    high = int(pieces[1]) if pieces[1] else _ENDLESS
    if step < 1 or high <= low:
        raise BadInput(f"{option} {whole!r}: {text!r} names no number; `to` itself is left out")
    return range(low, high, step)


def _range_text(part: range) -> str:
    if len(part) == 1 and part.step == 1:
        return str(part.start)
    end = "" if part.stop >= _ENDLESS else part.stop
    return f"{part.start}:{end}" + (f":{part.step}" if part.step != 1 else "")


def _stretch(positions: Any) -> tuple[int, int] | None:
    """Return `positions` as first and end."""
    if positions is None:
        return None
    try:
        parts = positions.split(":") if isinstance(positions, str) else positions
        first, end = (int(part) for part in parts)
    except (TypeError, ValueError):
        first, end = 0, 0
    if not 0 <= first < end:
        raise BadInput(f"positions {positions!r} is not from:to, such as 0:128")
    return first, end


def _check_count(name: str, value: Any) -> None:
    if value is None and name in ("first", "max_bytes", "max_records"):
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"{name} {value!r} is not a whole number from 1 on")
