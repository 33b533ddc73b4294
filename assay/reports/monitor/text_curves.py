"""Curves as text: braille dots with axes, or ASCII marks where a terminal has nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, pairwise
from math import isfinite
from operator import itemgetter, or_

from rich.text import Text

from assay.reports.monitor.state import LossCurve
from assay.reports.numerals import number, tick

ASCII_MARKS = "*o+x#@%&"
# The bit of each dot of a braille character, by column and row.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BRAILLE = 0x2800
_LEAST_WIDTH = 8

Grid = list[list[dict[int, int]]]  # of characters: the bits of each curve's dots, by its number
_FURTHEST = -10.0  # frames above the first line, so that no line is endless
_EARLY = 0.1  # the share of the steps whose high losses may be cut off


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """The steps and losses that are drawn; losses above `high` are cut off where `cut` is true."""

    first: float
    last: float
    low: float
    high: float
    cut: bool

    def place(self, step: int, loss: float, dots: tuple[int, int]) -> tuple[int, int]:
        """The column and row of a point among so many of both; that of one cut off is below 0."""
        across = (step - self.first) / (self.last - self.first)
        down = max((self.high - loss) / (self.high - self.low), _FURTHEST)
        return round(across * (dots[0] - 1)), round(down * (dots[1] - 1))

    def labels(self, height: int) -> dict[int, str]:
        """Losses by the number of their line."""
        values = {0: self.high, height - 1: self.low}
        if height >= 5:
            values[height // 2] = self.high + (self.low - self.high) * (height // 2) / (height - 1)
        above = ">" if self.cut else ""
        return {row: f"{'' if row else above}{number(loss)}" for row, loss in values.items()}


def draw(
    curves: Sequence[LossCurve], styles: Sequence[str], *, width: int, height: int, plain: bool
) -> list[Text]:
    """Lines of `width` characters at most: `height` of curves and two of the axis below.

    The curves are in one frame of steps and losses, their values at its ends. With `plain` each
    has its own mark, else its own style.
    """
    frame = _frame([point for curve in curves for point in curve.points])
    if frame is None:
        return []
    labels = frame.labels(height)
    margin = max(map(len, labels.values()))
    columns = max(width - margin - 2, _LEAST_WIDTH)
    bar, corner, line = ("|", "+", "-") if plain else ("│", "└", "─")
    lines = []
    for row, cells in enumerate(_grid(curves, frame, columns, height, plain)):
        text = Text(f"{labels.get(row, ''):>{margin}} {bar}", no_wrap=True)
        drawn = [_character(bits, column, styles, plain) for column, bits in enumerate(cells)]
        for style, run in groupby(drawn, key=itemgetter(1)):
            text.append("".join(character for character, _ in run), style)
        lines.append(text)
    ends = tick(frame.first), f"step {tick(frame.last)}"
    gap = max(columns - len(ends[0]) - len(ends[1]), 1)
    lines.append(Text(f"{'':{margin}} {corner}{line * columns}", no_wrap=True))
    lines.append(Text(f"{'':{margin + 2}}{ends[0]}{' ' * gap}{ends[1]}", no_wrap=True))
    return lines


def _frame(points: Sequence[tuple[int, float]]) -> _Frame | None:
    """The frame of all points, but for the high losses of the first steps, which would press all
    that comes after them into its lowest lines; None without a point, or with one beyond what
    can be drawn."""
    if not points or not isfinite(sum(abs(y) for _, y in points)):
        return None
    first, last = _apart(min(x for x, _ in points), max(x for x, _ in points))
    low, top = _apart(min(y for _, y in points), max(y for _, y in points))
    early = first + _EARLY * (last - first)
    high = max((y for x, y in points if x >= early), default=top)
    cut = low < high < low + (top - low) / 2
    return _Frame(first=first, last=last, low=low, high=high if cut else top, cut=cut)


def _grid(
    curves: Sequence[LossCurve], frame: _Frame, columns: int, height: int, plain: bool
) -> Grid:
    per_character = (1, 1) if plain else (2, 4)
    dots = columns * per_character[0], height * per_character[1]
    grid: Grid = [[{} for _ in range(columns)] for _ in range(height)]
    for index, curve in enumerate(curves):
        placed = [frame.place(step, loss, dots) for step, loss in curve.points]
        for column, row in _joined(_thinned(placed)):
            if row >= 0:
                _set(grid, column, row, index, per_character)
    return grid


def _apart(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, which are not the same value."""
    if high > low:
        return low, high
    room = abs(low) * 0.01 or 1.0
    return low - room, high + room


def _thinned(placed: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first, the highest, the lowest and the last dot of each column: they draw the same."""
    columns: dict[int, list[int]] = {}
    for column, row in placed:
        columns.setdefault(column, []).append(row)
    return [
        (column, row)
        for column, rows in columns.items()
        for row in dict.fromkeys((rows[0], min(rows), max(rows), rows[-1]))
    ]


def _joined(placed: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Dots of the straight lines from each point to the next."""
    dots = list(placed[:1])
    for (x0, y0), (x1, y1) in pairwise(placed):
        count = max(abs(x1 - x0), abs(y1 - y0), 1)
        dots += [
            (round(x0 + (x1 - x0) * n / count), round(y0 + (y1 - y0) * n / count))
            for n in range(1, count + 1)
        ]
    return dots


def _set(grid: Grid, column: int, row: int, index: int, per_character: tuple[int, int]) -> None:
    wide, tall = per_character
    bits = grid[row // tall][column // wide]
    bits[index] = bits.get(index, 0) | _DOTS[column % wide][row % tall]


def _character(
    bits: dict[int, int], column: int, styles: Sequence[str], plain: bool
) -> tuple[str, str]:
    """A character and its style; where curves lie on each other they take turns."""
    if not bits:
        return " ", ""
    index = sorted(bits)[column % len(bits)]
    mark = ASCII_MARKS[index % len(ASCII_MARKS)]
    dots = reduce(or_, bits.values())
    return mark if plain else chr(_BRAILLE | dots), styles[index % len(styles)]
