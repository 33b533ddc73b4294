"""`assay --help` and `assay list`, against importing the libraries they are drawn with.

Target: each under 3 times `python -c "import typer, rich"`.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from assay.records.schema import Measurement

from .fresh_process import WORKLOAD, elapsed_s
from .rounds import interleaved, measured, ratios

SUBJECTS = ("typer_rich", "help", "list")
SIZES = {"rounds": 20}


def measure(scratch: Path, *, rounds: int) -> Iterator[Measurement]:
    """`help_ratio` and `list_ratio`, and the times they are made of."""
    sides = {
        "typer_rich": partial(elapsed_s, "-c", "import typer, rich"),
        "help": partial(elapsed_s, "-m", "assay", "--help"),
        "list": partial(elapsed_s, "-m", "assay", "list"),
    }
    interleaved(sides, rounds=1)  # compiles what is not compiled yet
    samples = interleaved(sides, rounds=rounds)
    for name, samples_s in samples.items():
        yield measured(
            "command_ms",
            [1e3 * s for s in samples_s],
            unit="ms",
            subject=name,
            source="wall time of a fresh process, output to a pipe: "
            "python -c 'import typer, rich', python -m assay --help, python -m assay list",
            workload=WORKLOAD,
        )
    for name in ("help", "list"):
        yield measured(
            f"{name}_ratio",
            ratios(samples[name], samples["typer_rich"]),
            unit="",
            subject="assay",
            source=f"time of assay {name} over python -c 'import typer, rich', round by round",
            workload=WORKLOAD,
        )
