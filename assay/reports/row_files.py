"""Rows of a verb as JSON lines, for programs: printed, or a file in a folder that is made."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import BadInput
from assay.records.durable import make_folder, write_atomically

Row = Mapping[str, Any]


def print_rows(rows: Sequence[Row]) -> None:
    print(_lines(rows), end="")


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Replace the file by these rows; its folder is made where it is not there."""
    make_folder(path.parent)
    write_atomically(path, _lines(rows).encode())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of such a file."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} cannot be read as JSON lines: {error}") from error


def _lines(rows: Sequence[Row]) -> str:
    """Names of fields are without spaces."""
    named = ({name.replace(" ", "_"): value for name, value in row.items()} for row in rows)
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in named)
