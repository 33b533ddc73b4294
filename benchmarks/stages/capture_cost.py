"""Cost of capture: a training step with and without it, and the writer beside raw writes.

One cell for each script beside this folder; its docstring says what is compared.

    assay study run --plugins benchmarks --set STUDY=capture-cost --set STAGES=capture_cost
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study

AFTER = ()
FOLDER = Path(__file__).parent.parent


def cells(study: Study) -> list[Cell]:
    """Training in torch, and the writer; a small model where there is no GPU."""
    small = ["--small"] if study.device == "cpu" else []
    return [
        Cell(name="training", subjects=("statistics", "full"), options={"arguments": small}),
        Cell(name="writer", subjects=("writer",), options={"arguments": []}),
    ]


def run(cell: Cell) -> Iterator[Measurement]:
    """Ratios of times, a sample for each round."""
    script, measure = SCRIPTS[cell.name]
    with tempfile.TemporaryDirectory(dir="results") as folder:
        results = Path(folder) / "results.json"
        scratch = Path(folder) / "written"
        scratch.mkdir()
        arguments = [*cell.options["arguments"], "--folder", str(scratch), "--json", str(results)]
        subprocess.run([sys.executable, str(FOLDER / script), *arguments], check=True)
        yield from measure(json.loads(results.read_text()))


def _of_training(results: dict[str, Any]) -> Iterator[Measurement]:
    """Ratio of the time of a step, and what was dropped."""
    plain = results["ways"]["off"]["step_ms"]
    rounds = f"{results['rounds']} rounds of {results['block_steps']} steps each way, on "
    source = f"host clock around a block, device synchronised; {rounds}{results['device']}"
    for way, result in results["ways"].items():
        yield _measurement(
            "step_ms", way, _median(result["step_ms"]), "ms", source, result["step_ms"]
        )
        if way == "off":
            continue
        ratios = [a / b for a, b in zip(result["step_ms"], plain, strict=True)]
        dropped = sum(result.get("dropped", {}).values())
        yield _measurement("step_ratio", way, _median(ratios), "ratio", source, ratios)
        yield _measurement("captured_records", way, result["records"], "count", source)
        yield _measurement("captured_bytes", way, result["bytes"], "B", source)
        yield _measurement("dropped_records", way, dropped, "count", source)


def _of_writer(results: list[dict[str, Any]]) -> Iterator[Measurement]:
    """The writer's speed over that of raw writes of the same bytes, each with the same syncs."""
    for result in results:
        sync = "fsync" if result["sync"] else "no_fsync"
        name = f"{result['megabytes']}mb_{sync}"
        raw, own = result["seconds"]["raw"], result["seconds"]["writer"]
        ratios = [a / b for a, b in zip(raw, own, strict=True)]
        source = f"{result['records']} records of {result['megabytes']} MB a round, host clock"
        yield _measurement(
            f"writer_ratio_{name}", "writer", _median(ratios), "ratio", source, ratios
        )
        yield _measurement(f"raw_write_{name}", "writer", result["raw_mb_s"], "MB/s", source)
        yield _measurement(f"writer_{name}", "writer", result["writer_mb_s"], "MB/s", source)


SCRIPTS: dict[str, tuple[str, Callable[[Any], Iterator[Measurement]]]] = {
    "training": ("capture_overhead.py", _of_training),
    "writer": ("capture_writer.py", _of_writer),
}


def _median(values: list[float]) -> float:
    ordered, middle = sorted(values), len(values) // 2
    return (ordered[middle] + ordered[-1 - middle]) / 2


def _measurement(
    metric: str,
    subject: str,
    value: float,
    unit: str,
    source: str,
    samples: list[float] | None = None,
) -> Measurement:
    return Measurement(
        metric=metric,
        subject=subject,
        value=float(value),
        unit=unit,
        source=source,
        samples=samples or [],
        level="model",
    )
