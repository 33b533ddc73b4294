"""Appending records cell by cell, each cell durable before the next begins.

Target: at least 0.7 of the speed of a bare loop that encodes the same records with msgspec one by
one, writes the lines and calls fsync once per cell.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from assay.records.durable import make_folder
from assay.records.log import Log
from assay.records.schema import Measurement, Record, WorkloadIdentity

from .made_records import SAMPLES, batches
from .rounds import interleaved, measured, ratios

SUBJECTS = ("bare_loop", "log")
SIZES = {"rounds": 9, "cells": 1000, "cell_records": 100}
_BUFFER_BYTES = 1 << 20  # more than a cell, so the bare loop too writes each cell at once

Cells = Sequence[Sequence[Record]]


def measure(scratch: Path, *, rounds: int, cells: int, cell_records: int) -> Iterator[Measurement]:
    """`append_ratio`, and the times and rates of both sides."""
    made = list(batches(run="made", stage="bench", cells=cells, cell_records=cell_records))
    count = cells * cell_records
    spec = {"records": count, "cells": cells, "samples": SAMPLES}
    workload = WorkloadIdentity(name=f"append_{count}_records", spec=spec, content=None)
    with TemporaryDirectory(prefix=".spine-", dir=make_folder(scratch)) as folder:
        write = partial(_elapsed_s, made, Path(folder, "metrics.jsonl"))
        sides = {"bare_loop": partial(write, _bare_loop), "log": partial(write, _log)}
        interleaved(sides, rounds=1)
        samples = interleaved(sides, rounds=rounds)
    source = f"{count} records in {cells} cells, to a fresh file, fsync after each cell"
    for name, samples_s in samples.items():
        say = partial(measured, subject=name, workload=workload)
        yield say("append_s", samples_s, unit="s", source=f"wall time: {source}")
        rates = [count / s for s in samples_s]
        yield say("append_records_per_s", rates, unit="1/s", source=f"over wall time: {source}")
    yield measured(
        "append_ratio",
        ratios(samples["bare_loop"], samples["log"]),
        unit="",
        subject="log",
        source=f"time of the bare loop over that of Log.append, round by round: {source}",
        workload=workload,
    )


def _elapsed_s(made: Cells, path: Path, write: Callable[[Path, Cells], None]) -> float:
    start = time.perf_counter()
    write(path, made)
    elapsed = time.perf_counter() - start
    path.unlink()
    return elapsed


def _log(path: Path, made: Cells) -> None:
    with Log(path) as log:
        for records in made:
            log.append(records)


def _bare_loop(path: Path, made: Cells) -> None:
    encode = msgspec.json.Encoder().encode
    with open(path, "wb", buffering=_BUFFER_BYTES) as file:
        for records in made:
            for record in records:
                file.write(encode(record))
                file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())
