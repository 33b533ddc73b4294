"""Heat maps as SVG inside the page: they take its colours, light or dark, and need no script."""

from dataclasses import dataclass
from html import escape

from assay.reports.numerals import tick

WIDTH = 520  # of the drawing, in its own units; the page scales it
_LEVELS = 24  # of colour
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 6, 30, 36
_LEGEND_WIDTH, _LEGEND_HEIGHT = 96, 9
_LETTER = 8.4  # about the width of a letter
# Every how many places a label may stand.
_NICE = (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 250, 500, 1000, 5000)
_LABEL_ROOM = 15  # between the middles of two labels of rows


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """Cells between `low` (faint) and `high` (full); None is left blank.

    With `hints` each cell says its own; without, cells of a colour are drawn in one stroke, which
    keeps a large map small.
    """

    cells: tuple[tuple[float | None, ...], ...]
    low: float
    high: float
    low_text: str
    high_text: str
    rows_are: str
    columns_are: str
    row_names: tuple[str, ...] = ()  # their places from 0 on where none are given
    # Where a cell stands for several places: how many there are along each side.
    row_places: int | None = None
    column_places: int | None = None
    hints: tuple[tuple[str, ...], ...] = ()
    square: bool = False  # as high as it is wide
    widest_cell: float = 40.0
    highest_cell: float = 22.0


@dataclass(frozen=True)
class _Frame:
    """Where the cells lie."""

    rows: int
    columns: int
    cell_width: float
    cell_height: float

    @property
    def width(self) -> float:
        return self.columns * self.cell_width

    @property
    def height(self) -> float:
        return self.rows * self.cell_height


def draw(found: HeatMap, *, label: str) -> str:
    """The SVG element; `label` is what a screen reader says."""
    frame = _frame(found)
    cells = _with_hints(found, frame) if found.hints else _by_colour(found)
    parts = [
        _legend(found),
        f'<g transform="translate({_LEFT} {_TOP}) scale({frame.cell_width:.3f} '
        f'{frame.cell_height:.3f})" shape-rendering="crispEdges">',
        f'<path class="ground" d="{_box(0, 0, frame.columns, frame.rows)}"/>',
        *cells,
        "</g>",
        *_row_labels(found, frame),
        *_column_labels(found, frame),
    ]
    height = _TOP + frame.height + _BOTTOM
    return (
        f'<svg class="drawing" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _frame(found: HeatMap) -> _Frame:
    rows, columns = len(found.cells), len(found.cells[0])
    room = WIDTH - _LEFT - _RIGHT
    if found.square:
        side = min(room, 340)
        return _Frame(rows, columns, side / columns, min(side / rows, 40.0))
    width = min(found.widest_cell, room / columns)
    height = min(found.highest_cell, max(5.0, 420 / rows))
    return _Frame(rows, columns, width, height)


def _level(found: HeatMap, value: float | None) -> int | None:
    if value is None or value != value:
        return None
    span = (found.high - found.low) or 1.0
    return round(min(max((value - found.low) / span, 0.0), 1.0) * _LEVELS)


def _by_colour(found: HeatMap) -> list[str]:
    """One path for each colour; cells of a colour that touch in a row are one box."""
    boxes: dict[int, list[str]] = {}
    for y, row in enumerate(found.cells):
        levels = [_level(found, value) for value in row]
        start = 0
        for x in range(1, len(levels) + 1):
            if x < len(levels) and levels[x] == levels[start]:
                continue
            if levels[start]:
                boxes.setdefault(levels[start], []).append(_box(start, y, x - start, 1))
            start = x
    return [
        f'<path class="heat" fill-opacity="{level / _LEVELS:.2f}" d="{"".join(drawn)}"/>'
        for level, drawn in sorted(boxes.items())
    ]


def _with_hints(found: HeatMap, frame: _Frame) -> list[str]:
    drawn = []
    for y, (row, hints) in enumerate(zip(found.cells, found.hints, strict=True)):
        for x, (value, hint) in enumerate(zip(row, hints, strict=True)):
            level = _level(found, value)
            opacity = 0.0 if level is None else level / _LEVELS
            drawn.append(
                f'<path class="heat" fill-opacity="{opacity:.2f}" d="{_box(x, y, 1, 1)}">'
                f"<title>{escape(hint)}</title></path>"
            )
    return drawn


def _box(x: int, y: int, width: int, height: int) -> str:
    return f"M{x} {y}h{width}v{height}h-{width}z"


def _legend(found: HeatMap) -> str:
    """From faint to full, with the numbers of both ends, above the map."""
    start = _LEFT + _LETTER * len(found.low_text) + 6
    step = _LEGEND_WIDTH / 8
    boxes = "".join(
        f'<rect class="heat" x="{start + i * step:.1f}" y="8" width="{step:.1f}" '
        f'height="{_LEGEND_HEIGHT}" fill-opacity="{(i + 0.5) / 8:.2f}"/>'
        for i in range(8)
    )
    end = start + _LEGEND_WIDTH + 6
    return (
        f'<g shape-rendering="crispEdges"><rect class="ground" x="{start:.1f}" y="8" '
        f'width="{_LEGEND_WIDTH}" height="{_LEGEND_HEIGHT}"/>{boxes}</g>'
        f'<text x="{_LEFT}" y="17">{escape(found.low_text)}</text>'
        f'<text x="{end:.1f}" y="17">{escape(found.high_text)}</text>'
    )


def _row_labels(found: HeatMap, frame: _Frame) -> list[str]:
    marks = _marks(found.row_names, frame.rows, found.row_places, frame.cell_height, _LABEL_ROOM)
    texts = [
        f'<text x="{_LEFT - 6}" y="{_TOP + place * frame.cell_height + 4:.1f}" '
        f'text-anchor="end">{escape(name)}</text>'
        for place, name in marks
    ]
    middle = _TOP + frame.height / 2
    if frame.height < _LETTER * len(found.rows_are) + 12:
        return texts  # no room to say along the side what the rows are
    along = f'transform="translate(12 {middle:.1f}) rotate(-90)"'
    return [*texts, f'<text {along} text-anchor="middle">{escape(found.rows_are)}</text>']


def _column_labels(found: HeatMap, frame: _Frame) -> list[str]:
    room = len(str(found.column_places or frame.columns)) * _LETTER + 8
    marks = _marks((), frame.columns, found.column_places, frame.cell_width, room)
    y = _TOP + frame.height + 15
    texts = [
        f'<text x="{_LEFT + place * frame.cell_width:.1f}" y="{y:.1f}" '
        f'text-anchor="middle">{escape(name)}</text>'
        for place, name in marks
    ]
    place = f'x="{_LEFT + frame.width / 2:.1f}" y="{y + 16:.1f}" text-anchor="middle"'
    return [*texts, f"<text {place}>{escape(found.columns_are)}</text>"]


def _marks(
    names: tuple[str, ...], cells: int, places: int | None, step: float, room: float
) -> list[tuple[float, str]]:
    """Where along a side a label stands, in cells, and what it says."""
    many = places or cells
    every = next((n for n in _NICE if n * step * cells / many >= room), many)
    return [
        ((i + 0.5) * cells / many, names[i] if names else str(i)) for i in range(0, many, every)
    ]


def scale_text(value: float) -> str:
    """A number at the end of a legend."""
    return tick(float(f"{value:.3g}"))
