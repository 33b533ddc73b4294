"""Heat maps and histograms as SVG elements that take the colours of the page, light or dark.

Drawn here because a page of 30 layers then has 1.2 MB, is drawn in 0.2 s of CPU time, and needs
neither a script nor a package. matplotlib 3.11 makes 14 MB in 18 s of the same (pcolormesh), or
2.1 MB in 11 s of fixed colours (imshow); plotly 7.1 makes 6.2 MB in 0.8 s, 4.8 MB of them a script
that draws while the page is read (`python benchmarks/inspect_drawings.py`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

from assay.reports.style import DASHES, PALETTE

_WIDTH = 520  # of a drawing, in its own units; the page scales it
_LETTER = 8.4  # about the width of a letter, at most
_LEVELS = 24  # of colour in a heat map
_MAP_LEFT, _MAP_RIGHT, _MAP_TOP, _MAP_BOTTOM = 64, 6, 30, 36
_LEGEND_WIDTH, _LEGEND_HEIGHT, _LEGEND_STEPS = 96, 9, 8
# Every how many places a label may stand.
_INTERVALS = (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 250, 500, 1000, 5000)
_LABEL_ROOM = 15  # between the middles of two labels of rows
_NAMES_HEIGHT = 48  # of names of columns
_PLOT_HEIGHT = 260
_PLOT_LEFT, _PLOT_RIGHT, _PLOT_TOP, _PLOT_BOTTOM = 54, 20, 30, 46
_PLOT_TOPS = (0.04, 0.08, 0.2, 0.4, 0.6, 0.8, 1.0)  # of a linear axis: their quarters are short
_STROKES = {"-": "", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """Cells between `low` (faint) and `high` (full); None is left blank.

    With `hints` each cell has its own; without, cells of a colour are drawn in one path, which
    keeps a large map small.
    """

    cells: tuple[tuple[float | None, ...], ...]
    low: float
    high: float
    low_text: str
    high_text: str
    row_label: str
    column_label: str
    row_names: tuple[str, ...] = ()  # numbers from 0 on where there are none
    column_names: tuple[str, ...] = ()  # likewise; written upright
    # Where a cell stands for several places: how many there are along each side.
    row_places: int | None = None
    column_places: int | None = None
    hints: tuple[tuple[str, ...], ...] = ()
    square: bool = False  # as high as it is wide
    widest_cell: float = 40.0
    highest_cell: float = 22.0

    @property
    def rows(self) -> int:
        return len(self.cells)

    @property
    def columns(self) -> int:
        return len(self.cells[0])

    @property
    def cell_size(self) -> tuple[float, float]:
        """Width and height of a cell."""
        room = _WIDTH - _MAP_LEFT - _MAP_RIGHT
        if self.square:
            side = min(room, 340)
            return side / self.columns, min(side / self.rows, 40.0)
        width = min(self.widest_cell, room / self.columns)
        return width, min(self.highest_cell, max(5.0, 420 / self.rows))

    def level(self, value: float | None) -> int:
        """Level of colour of a value, from 0 to _LEVELS."""
        if value is None or math.isnan(value):
            return 0
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return round(min(max(share, 0.0), 1.0) * _LEVELS)


@dataclass(frozen=True, kw_only=True)
class HistogramPlot:
    """Outlines of histograms with the same bins, from `low` on, each `width` wide."""

    low: float
    width: float
    shares: dict[str, tuple[float, ...]]  # of each bin, by the name of the histogram
    ticks: tuple[tuple[float, str], ...]
    x_label: str
    y_label: str = "share of the numbers"
    reference: tuple[str, tuple[float, ...]] | None = None  # a quiet outline: its name and shares
    log_floor: float | None = None  # lowest share of a logarithmic axis; None is linear

    @cached_property
    def highest(self) -> float:
        """Share at the top of the axis."""
        outlines = [*self.shares.values(), *([self.reference[1]] if self.reference else [])]
        top = max((share for outline in outlines for share in outline), default=0.0)
        if self.log_floor is not None:
            return max(1.0, top)
        return next((nice for nice in _PLOT_TOPS if nice >= top), top)

    def x(self, value: float) -> float:
        bins = max(map(len, self.shares.values()))
        part = (value - self.low) / (self.width * bins)
        return _PLOT_LEFT + part * (_WIDTH - _PLOT_LEFT - _PLOT_RIGHT)

    def y(self, share: float) -> float:
        part = share / self.highest
        if self.log_floor is not None:
            floor = math.log10(self.log_floor)
            value = math.log10(max(share, self.log_floor))
            part = (value - floor) / (math.log10(self.highest) - floor)
        return _PLOT_TOP + (_PLOT_HEIGHT - _PLOT_TOP - _PLOT_BOTTOM) * (1 - part)


def heat_map(drawn: HeatMap, *, label: str) -> str:
    """SVG element of a heat map; `label` is for a screen reader."""
    cell_width, cell_height = drawn.cell_size
    width, height = drawn.columns * cell_width, drawn.rows * cell_height
    parts = (
        *_colour_scale(drawn),
        f'<g transform="translate({_MAP_LEFT} {_MAP_TOP}) scale({cell_width:.3f} '
        f'{cell_height:.3f})" shape-rendering="crispEdges">',
        f'<path class="ground" d="{_box(0, 0, drawn.columns, drawn.rows)}"/>',
        *(_cells_with_hints(drawn) if drawn.hints else _cells_by_colour(drawn)),
        "</g>",
        *_row_labels(drawn, height, cell_height),
        *_column_labels(drawn, width, cell_width, _MAP_TOP + height + 15),
    )
    bottom = _MAP_BOTTOM + (_NAMES_HEIGHT if drawn.column_names else 0)
    return _svg(parts, height=_MAP_TOP + height + bottom, label=label)


def histogram_plot(drawn: HistogramPlot, *, label: str) -> str:
    """SVG element of outlined histograms; `label` is for a screen reader."""
    outlines = [(name, shares, _stroke(i)) for i, (name, shares) in enumerate(drawn.shares.items())]
    if drawn.reference:
        outlines.insert(0, (*drawn.reference, 'class="curve quiet"'))
    paths = (f'<path {stroke} d="{_outline(drawn, shares)}"/>' for _, shares, stroke in outlines)
    named = [(name, stroke) for name, _, stroke in outlines]
    legend = _legend(named[1:] + named[:1] if drawn.reference else named)
    return _svg((*_axes(drawn), *legend, *paths), height=_PLOT_HEIGHT, label=label)


def superscript(power: int) -> str:
    """A whole number as an exponent."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _svg(parts: Sequence[str], *, height: float, label: str) -> str:
    return (
        f'<svg class="drawing" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{anchored}>{escape(text)}</text>'


def _upright(y: float, text: str) -> str:
    """The label of a vertical axis, read from below."""
    place = f'transform="translate(12 {y:.1f}) rotate(-90)" text-anchor="middle"'
    return f"<text {place}>{escape(text)}</text>"


def _box(x: int, y: int, width: int, height: int) -> str:
    return f"M{x} {y}h{width}v{height}h-{width}z"


def _cells_by_colour(drawn: HeatMap) -> Iterator[str]:
    """One path for each colour; cells of a colour that touch in a row are one box."""
    boxes: dict[int, list[str]] = {}
    for y, row in enumerate(drawn.cells):
        levels = [drawn.level(value) for value in row]
        start = 0
        for x in range(1, len(levels) + 1):
            if x < len(levels) and levels[x] == levels[start]:
                continue
            if levels[start]:
                boxes.setdefault(levels[start], []).append(_box(start, y, x - start, 1))
            start = x
    for level, together in sorted(boxes.items()):
        opacity = f'fill-opacity="{level / _LEVELS:.2f}"'
        yield f'<path class="heat" {opacity} d="{"".join(together)}"/>'


def _cells_with_hints(drawn: HeatMap) -> Iterator[str]:
    for y, (row, hints) in enumerate(zip(drawn.cells, drawn.hints, strict=True)):
        for x, (value, hint) in enumerate(zip(row, hints, strict=True)):
            opacity = f'fill-opacity="{drawn.level(value) / _LEVELS:.2f}"'
            title = f"<title>{escape(hint)}</title>"
            yield f'<path class="heat" {opacity} d="{_box(x, y, 1, 1)}">{title}</path>'


def _colour_scale(drawn: HeatMap) -> Iterator[str]:
    """The scale from faint to full above the map, with the numbers of both ends."""
    start = _MAP_LEFT + 9.6 * len(drawn.low_text) + 6
    step, size = _LEGEND_WIDTH / _LEGEND_STEPS, f'y="8" height="{_LEGEND_HEIGHT}"'
    yield '<g shape-rendering="crispEdges">'
    yield f'<rect class="ground" x="{start:.1f}" width="{_LEGEND_WIDTH}" {size}/>'
    for i in range(_LEGEND_STEPS):
        opacity = f'fill-opacity="{(i + 0.5) / _LEGEND_STEPS:.2f}"'
        place = f'x="{start + i * step:.1f}" width="{step:.1f}"'
        yield f'<rect class="heat" {place} {size} {opacity}/>'
    yield "</g>"
    yield _text(_MAP_LEFT, 17, drawn.low_text)
    yield _text(start + _LEGEND_WIDTH + 6, 17, drawn.high_text)


def _row_labels(drawn: HeatMap, height: float, cell_height: float) -> Iterator[str]:
    places = drawn.row_places or drawn.rows
    for place, index in _marks(drawn.rows, places, cell_height, _LABEL_ROOM):
        name = drawn.row_names[index] if drawn.row_names else str(index)
        yield _text(_MAP_LEFT - 6, _MAP_TOP + place * cell_height + 4, name, "end")
    if height >= _LETTER * len(drawn.row_label) + 12:  # else there is no room along the side
        yield _upright(_MAP_TOP + height / 2, drawn.row_label)


def _column_labels(drawn: HeatMap, width: float, cell_width: float, y: float) -> Iterator[str]:
    places = drawn.column_places or drawn.columns
    if drawn.column_names:
        for place, index in _marks(drawn.columns, places, cell_width, _LABEL_ROOM):
            at = f"translate({_MAP_LEFT + place * cell_width + 4:.1f} {y - 8:.1f}) rotate(-90)"
            name = escape(drawn.column_names[index])
            yield f'<text transform="{at}" text-anchor="end">{name}</text>'
        yield _text(_MAP_LEFT + width / 2, y + 16 + _NAMES_HEIGHT, drawn.column_label, "middle")
        return
    for place, index in _marks(drawn.columns, places, cell_width, len(str(places)) * _LETTER + 8):
        yield _text(_MAP_LEFT + place * cell_width, y, str(index), "middle")
    yield _text(_MAP_LEFT + width / 2, y + 16, drawn.column_label, "middle")


def _marks(cells: int, places: int, cell: float, room: float) -> list[tuple[float, int]]:
    """Labels along a side: where each stands, in cells, and the index of its place."""
    every = next((n for n in _INTERVALS if n * cell * cells / places >= room), places)
    return [((i + 0.5) * cells / places, i) for i in range(0, places, every)]


def _outline(drawn: HistogramPlot, shares: Sequence[float]) -> str:
    """Path over the bins, from the axis and back to it; empty ends are left out."""
    filled = [i for i, share in enumerate(shares) if share > 0]
    if not filled:
        return ""
    ground = drawn.y(0.0)
    path = [f"M{drawn.x(drawn.low + filled[0] * drawn.width):.1f} {ground:.1f}"]
    for i in range(filled[0], filled[-1] + 1):
        end = drawn.x(drawn.low + (i + 1) * drawn.width)
        path.append(f"V{drawn.y(shares[i]):.1f}H{end:.1f}")
    return "".join((*path, f"V{ground:.1f}"))


def _axes(drawn: HistogramPlot) -> Iterator[str]:
    right, ground = _WIDTH - _PLOT_RIGHT, _PLOT_HEIGHT - _PLOT_BOTTOM
    for share, name in _share_ticks(drawn):
        yield f'<path class="rule" d="M{_PLOT_LEFT} {drawn.y(share):.1f}H{right}"/>'
        yield _text(_PLOT_LEFT - 5, drawn.y(share) + 4, name, "end")
    for value, name in drawn.ticks:
        yield f'<path class="rule" d="M{drawn.x(value):.1f} {ground}v4"/>'
        yield _text(drawn.x(value), ground + 17, name, "middle")
    yield _text((_PLOT_LEFT + right) / 2, _PLOT_HEIGHT - 8, drawn.x_label, "middle")
    yield _upright((_PLOT_TOP + ground) / 2, drawn.y_label)


def _share_ticks(drawn: HistogramPlot) -> list[tuple[float, str]]:
    if drawn.log_floor is None:
        return [(drawn.highest * i / 4, f"{drawn.highest * i / 4:.3g}") for i in range(5)]
    powers = range(round(math.log10(drawn.log_floor)), 1, 2)
    return [(10.0**power, f"10{superscript(power)}" if power else "1") for power in powers]


def _legend(named: Sequence[tuple[str, str]]) -> Iterator[str]:
    x = float(_PLOT_LEFT)
    for name, stroke in named:
        yield f'<path {stroke} d="M{x:.1f} 13h18"/>'
        yield _text(x + 23, 17, name)
        x += 39 + 7.6 * len(name)


def _stroke(index: int) -> str:
    """Colour and dash, as the charts of a report tell series apart."""
    dash = _STROKES[DASHES[index % len(DASHES)][1]]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'class="curve" stroke="{PALETTE[index % len(PALETTE)]}"{dashes}'
