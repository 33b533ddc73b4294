"""`import assay` in a fresh process. Target: under 50 ms above a bare interpreter."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from assay.records.schema import Measurement

from .fresh_process import WORKLOAD, elapsed_s
from .rounds import interleaved, measured

SUBJECTS = ("python", "assay")
SIZES = {"rounds": 30}


def measure(scratch: Path, *, rounds: int) -> Iterator[Measurement]:
    """`import_assay_ms`, and the times it is the difference of."""
    sides = {
        "python": partial(elapsed_s, "-c", "pass"),
        "assay": partial(elapsed_s, "-c", "import assay"),
    }
    interleaved(sides, rounds=1)  # compiles what is not compiled yet
    samples_ms = {
        name: [1e3 * s for s in samples]
        for name, samples in interleaved(sides, rounds=rounds).items()
    }
    for name, samples in samples_ms.items():
        yield measured(
            "import_process_ms",
            samples,
            unit="ms",
            subject=name,
            source="wall time of a fresh process: python -c pass, python -c 'import assay'",
            workload=WORKLOAD,
        )
    yield measured(
        "import_assay_ms",
        [a - b for a, b in zip(samples_ms["assay"], samples_ms["python"], strict=True)],
        unit="ms",
        subject="assay",
        source="python -c 'import assay' minus python -c pass, round by round",
        workload=WORKLOAD,
    )
