"""The file of a worker's results, read back. Code of users ran in the process that wrote it, so a
line may hold anything: what cannot be read is a failure of the cell, not of the study."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from assay.records.schema import Measurement
from assay.subjects.outcome import Begin

_UNREADABLE = (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError)
_SHOWN_BYTES = 80


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Output of a process until it ended or crashed."""

    measurements: list[Measurement]
    at: Begin | None  # the last subject, probe and case
    ended: bool  # True at the end of the cell
    problem: str | None = None  # with the first line that cannot be read


def read_progress(file: Path) -> Progress:
    """Read what the worker wrote until its end, or until a line that it cannot have written; a
    torn last line is left out."""
    measurements: list[Measurement] = []
    at, ended, problem = None, False, None
    lines = file.read_bytes().split(b"\n")[:-1] if file.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            item = _decoded(line)
        except _UNREADABLE as error:
            shown = line[:_SHOWN_BYTES].decode(errors="backslashreplace")
            problem = f"line {number} of its results cannot be read ({error}): {shown!r}"
            ended = False
            break
        if isinstance(item, Begin):
            at = item
        elif isinstance(item, Measurement):
            measurements.append(item)
        else:
            ended = ended or item
    return Progress(measurements=measurements, at=at, ended=ended, problem=problem)


def _decoded(line: bytes) -> Begin | Measurement | bool:
    """A line as what it stands for: True for the end, False for the number of a batch."""
    item: Any = msgspec.json.decode(line, type=dict)
    if "begin" in item:
        fields = {"subject": item["begin"], "probe": item["probe"], "case": item["case"]}
        return msgspec.convert(fields, Begin)
    if "end" in item or "batch" in item:
        return "end" in item
    return msgspec.convert(item, Measurement)
