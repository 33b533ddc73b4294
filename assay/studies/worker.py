"""The process in which one cell runs: a fork, or where that is not safe a new Python.

Measurements go to the file `result` as they come, one JSON object per line, each signed
(signed_lines.py), so that what was complete before a crash is kept. `{"begin": SUBJECT, ...}` says
whose fault a crash would be, and `{"end": true}` that the cell came to its end. Batches go to the
stage's log, and only their numbers to `result`.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NoReturn

import msgspec

from assay import plugins
from assay.instruments import progress
from assay.records.schema import Measurement
from assay.studies import cell as cells
from assay.studies import stream
from assay.studies.cell import Batch
from assay.studies.signed_lines import Signer, taken_key
from assay.subjects import neighbours
from assay.subjects.outcome import Begin


def in_fork(files: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Run a cell as the answer to a question, with nothing to say but what it writes."""
    main(files["request"], files["result"])
    _end()
    yield from ()


def main(request: str, result: str) -> None:
    """Run the cell described in the file `request`."""
    job = cells.decode(Path(request).read_bytes())
    cell = job.cell
    signer = Signer(taken_key(Path(request).parent))
    stage = plugins.load(plugins.find("stages", job.stage, cell.plugin_folders))
    with open(result, "ab", buffering=0) as file, stream.opened(job) as batches:
        progress.goes_to(result)
        last = None
        for item in _events(stage, cell):
            if isinstance(item, dict):
                item = cells.measurement_of(item)
            if isinstance(item, Measurement):
                _write_line(file, signer, item)
            elif isinstance(item, Begin):
                if item != last:
                    last = item
                    start = {"begin": item.subject, "probe": item.probe, "case": item.case}
                    _write_line(file, signer, start)
            elif isinstance(item, Batch):
                if batches is None:
                    raise TypeError("only a stage with STREAMS = True may yield a Batch")
                batches.append(item)
                _write_line(file, signer, {"batch": item.number, "total": item.total})
            else:
                kind = type(item).__name__
                raise TypeError(
                    "a stage yields Begin, Batch, and Measurement or a dict of its fields; this "
                    f"one yielded a {kind}"
                )
        _write_line(file, signer, {"end": True})


def _events(stage: ModuleType, cell: cells.Cell) -> Iterator[Any]:
    """Events of the stage; subjects that run in turns are kept apart."""
    if not cell.probes:
        return stage.run(cell)
    listed = plugins.listing("frameworks")
    for plugin in cells.implementations(cell).values():
        name = plugin.literals.get("FRAMEWORK")
        if name in listed and not listed[name].missing:
            plugins.load(listed[name])  # before a subject can change its state
    return neighbours.kept_apart(stage.run(cell))


def _end() -> NoReturn:
    """End this process at once: all results are written, and whatever a subject left running
    would keep it."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _write_line(file: BinaryIO, signer: Signer, item: object) -> None:
    file.write(signer.signed(msgspec.json.encode(item)))
