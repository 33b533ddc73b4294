"""A cell that takes more memory than it may, and one that does not."""

import time

from assay.devices import memory_bytes
from assay.records.schema import Measurement
from assay.studies.cell import Cell

PIECE_BYTES = 8 << 20


def cells(study):
    limit_bytes = memory_bytes() * study.cell_memory_percent // 100
    return [Cell(name=name, options={"limit": limit_bytes}) for name in ("hungry", "frugal")]


def run(cell):
    eaten = []
    pieces = 2 * cell.options["limit"] // PIECE_BYTES if cell.name == "hungry" else 0
    for _ in range(pieces):
        eaten.append(b"x" * PIECE_BYTES)  # a filled piece is resident, a zeroed one need not be
        time.sleep(0.005)
    yield Measurement(metric="eaten", value=float(len(eaten) * PIECE_BYTES), unit="B")
