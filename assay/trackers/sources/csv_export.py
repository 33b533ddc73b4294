"""CSV files of a history: as W&B's web page exports a panel, or as a data frame is written."""

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from assay.errors import BadInput
from assay.trackers.opening import SourceRequest
from assay.trackers.run import STEP_COLUMNS, TrackerRow, TrackerRun, history, reading, row

_STEPS = {"step", "_step", *STEP_COLUMNS}
_TIMES = {"relative time (process)", "relative time (wall)", "wall time", "_runtime", "_timestamp"}
_SEPARATOR = " - "
_COMPANION = re.compile(r"(.+)__(MIN|MAX)")
_LARGEST_CELL = 1 << 20
_NO_CONFIG = "an export holds no configuration"


def recognises(request: SourceRequest) -> bool:
    path = request.path
    return path is not None and path.suffix.lower() == ".csv" and path.is_file()


def read(request: SourceRequest) -> list[TrackerRun]:
    """The runs of a file: several in a panel's export, one in any other."""
    assert request.path is not None
    header, rows = _cells(request.path)
    if not header or not (header[0].lower() in _STEPS | _TIMES or set(header) & _STEPS):
        raise BadInput(
            f"{request.path}: no column of steps; wanted `Step` first, as W&B exports a panel, or "
            f"`_step`, as a history has it, and this begins with {_start(header)}"
        )
    panel = [name for name in header[1:] if _SEPARATOR in name]
    return _of_panel(request.path, header, rows) if panel else [_of_frame(request.path, rows)]


def _cells(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Names of the columns, and the cells of each line by them."""
    csv.field_size_limit(_LARGEST_CELL)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            rows = list(_rows(path, reader, header))
    except csv.Error as error:
        raise BadInput(
            f"{path}, line {reader.line_num}: {error}; a quote may be too many or missing"
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is no text in UTF-8: {error.reason}") from error
    if len(set(header)) < len(header):
        raise BadInput(f"{path} has two columns of one name")
    return header, rows


def _rows(path: Path, reader: Iterator[list[str]], header: list[str]) -> Iterator[dict[str, str]]:
    for cells in reader:
        if cells and len(cells) != len(header):
            raise BadInput(
                f"{path}, line {reader.line_num}: {len(cells)} cells, and the first line has "
                f"{len(header)}; a comma or a quote is too many or missing"
            )
        if cells:
            yield dict(zip(header, cells, strict=True))


def _of_frame(path: Path, rows: Iterable[dict[str, str]]) -> TrackerRun:
    entries = [{name or "_index": _parsed(cell) for name, cell in cells.items()} for cells in rows]
    named = [
        {("_step" if name.lower() == "step" else name): v for name, v in entry.items()}
        for entry in entries
    ]
    made = history(named)
    return TrackerRun(
        source="csv_export",
        place=str(path),
        name=path.stem,
        **{**made, "remarks": (*made["remarks"], _NO_CONFIG)},
    )


def _of_panel(path: Path, header: list[str], rows: list[dict[str, str]]) -> list[TrackerRun]:
    """A run for each name before ` - `; its cells may be empty where others have a value."""
    axis = header[0]
    columns: dict[str, dict[str, str]] = {}
    for column in header[1:]:
        run, _, metric = column.rpartition(_SEPARATOR)
        if run and not metric.startswith("_"):
            columns.setdefault(run, {})[column] = metric
    if not columns:
        raise BadInput(f"{path} has no column RUN{_SEPARATOR}METRIC")
    return [
        TrackerRun(
            source="csv_export",
            place=str(path),
            name=run,
            history=tuple(_panel_row(axis, own, cells) for cells in rows),
            remarks=_panel_remarks(axis, own, rows),
        )
        for run, own in columns.items()
    ]


def _panel_row(axis: str, columns: dict[str, str], cells: dict[str, str]) -> TrackerRow:
    plain = {c: m for c, m in columns.items() if not _COMPANION.fullmatch(m)}
    values = {metric: _parsed(cells[column]) for column, metric in plain.items()}
    place = reading(_parsed(cells[axis]))
    on_steps = axis.lower() in _STEPS and isinstance(place, float) and place.is_integer()
    at = None if axis.lower() in _STEPS else _parsed(cells[axis])
    return row(values, step=int(place) if on_steps else None, at=at)


def _panel_remarks(
    axis: str, columns: dict[str, str], rows: list[dict[str, str]]
) -> tuple[str, ...]:
    remarks = [_NO_CONFIG]
    if axis.lower() not in _STEPS:
        remarks.append(f"its axis is {axis}, so no row has a step")
    ends: dict[str, dict[str, str]] = {}
    for column, metric in columns.items():
        if companion := _COMPANION.fullmatch(metric):
            ends.setdefault(companion[1], {})[companion[2]] = column
    binned = sum(
        cells[pair["MIN"]] != cells[pair["MAX"]]
        for pair in ends.values()
        if len(pair) == 2
        for cells in rows
    )
    if binned:
        remarks.append(f"{binned:,} values are averages of several points: MIN and MAX differ")
    return tuple(remarks)


def _parsed(cell: str) -> float | str:
    """A number where the cell is one; else its text."""
    try:
        return float(cell) if reading(cell) == "no number" else cell
    except ValueError:
        return cell


def _start(header: list[str]) -> str:
    return ", ".join(repr(name) for name in header[:3]) or "nothing"
