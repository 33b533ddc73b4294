"""A run that trains nothing and writes what training writes:

    mirrored_run.py RUN BATCHES PAUSE_S STOP

It holds the run and goes on with the batch after the last in its log, as a resumed study does, with
PAUSE_S between batches. Each cell has BATCHES; the last goes on until there is a file STOP.
"""

import math
import sys
import time
from pathlib import Path

from made_records import record

from assay.records import run as runs
from assay.records.log import Log
from assay.records.run import RunFolder
from assay.records.schema import CELL_PROGRESS, CELL_SECONDS, Record

STAGE = "train"
CELLS = ("GPT2/s0", "GPT2/s1")


def batch(cell: str, number: int, *, last: bool, run: str) -> list[Record]:
    """The records of a report; the last has the end of the cell after it."""

    def made(metric: str, value: float | None, step: int | None = 10 * number, **more) -> Record:
        place = {"seed": int(cell[-1])} | ({} if step is None else {"step": step})
        about = {"run": run, "stage": STAGE, "cell": cell, "subject": "GPT2", "time": runs.now()}
        return record(metric=metric, value=value, unit="1", data=place, **about, **more)

    records = [made("val_loss", math.e, step=0)] if number == 1 else []
    records.append(made("train_loss", math.sin(number) / 3))
    records.append(made("part.gate", 1 / number))
    if number == 2:
        records.append(made("grad_norm", None, status="failed", reason="it is not finite"))
    if not last:
        return [*records, made(CELL_PROGRESS, float(number), step=None)]
    return [
        *records,
        made("best_val_loss", 2.5, step=10),
        made("power_w", 412.5, step=None),
        made("peak_bytes", None, step=None, reason="torch counts the memory of a GPU only"),
        made(CELL_SECONDS, 12.25, step=None),
    ]


def write(folder: RunFolder, batches: int, pause_s: float = 0.0, stop: Path | None = None) -> None:
    """Bring the log to its end, held as a run is."""
    folder.stage(STAGE).mkdir(parents=True, exist_ok=True)
    with folder.held(), Log(folder.log(STAGE)) as log:
        before = runs.stage_records(folder, STAGE)
        for cell in CELLS:
            number = sum(bool(r.closes) for r in before if r.cell == cell)
            ended = any(r.metric == CELL_SECONDS for r in before if r.cell == cell)
            while not ended:
                number += 1
                waits = cell == CELLS[-1] and stop is not None and not stop.exists()
                ended = number >= batches and not waits
                log.append(batch(cell, number, last=ended, run=folder.path.name))
                time.sleep(pause_s)


if __name__ == "__main__":
    path, batches, pause_s, stop = sys.argv[1:]
    write(RunFolder(path=Path(path)), int(batches), float(pause_s), Path(stop))
