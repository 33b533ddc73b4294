"""Output of a cell's process until it ended or crashed. Code of users ran in it, so a line may hold
anything: what cannot be read is a failure of the cell, not of the study."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from assay.records.schema import Measurement
from assay.studies.signed_lines import Forged, contents
from assay.subjects.outcome import Begin

_UNREADABLE = (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError)
_LAST_WORDS_BYTES = 2000


@dataclass(frozen=True, kw_only=True)
class WorkerOutput:
    """Measurements, and how far it came."""

    measurements: list[Measurement]
    at: Begin | None  # the last subject, probe and case
    ended: bool  # True at the end of the cell
    problem: str | None = None  # with the first line that cannot be read
    forged: bool = False  # that line is of another hand, written while the process was at `at`


def read(result: Path, key: bytes) -> WorkerOutput:
    """Read what the worker wrote, until a line that it did not; a torn last line is left out."""
    measurements: list[Measurement] = []
    at, ended, problem, forged = None, False, None, False
    for content in contents(result.read_bytes() if result.is_file() else b"", key):
        if isinstance(content, Forged):
            ended, problem, forged = False, str(content), True
            break
        try:
            item = _decoded(content)
        except _UNREADABLE as error:
            ended, problem = False, f"a line of its results cannot be read ({error})"
            break
        if isinstance(item, Begin):
            at = item
        elif isinstance(item, Measurement):
            measurements.append(item)
        else:
            ended = ended or item
    return WorkerOutput(
        measurements=measurements, at=at, ended=ended, problem=problem, forged=forged
    )


def last_words(path: Path, start: int) -> str:
    """The last line that the process wrote to stderr, as the end of a reason; empty for none. Of a
    long one its end, from a space on: the rest of a key that the cut goes through would be taken
    for no key."""
    with open(path, "rb") as file:
        begin = file.seek(max(start, path.stat().st_size - _LAST_WORDS_BYTES))
        text = file.read().decode(errors="replace").rstrip()
    line = text.rpartition("\n")[2]
    line = line.partition(" ")[2] if line == text and begin > start else line.strip()
    return f"; its last line: {line}" if line else ""


def _decoded(content: bytes) -> Begin | Measurement | bool:
    """A line as what it stands for: True for the end, False for the number of a batch."""
    item = msgspec.json.decode(content, type=dict)
    if "begin" in item:
        fields = {"subject": item["begin"], "probe": item["probe"], "case": item["case"]}
        return msgspec.convert(fields, Begin)
    if "end" in item or "batch" in item:
        return "end" in item
    return msgspec.convert(item, Measurement)
