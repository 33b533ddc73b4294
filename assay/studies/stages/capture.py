"""Real inputs: a language model reads a text, and its attention calls become workloads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.captures.recording.options import CaptureOptions
from assay.errors import BadInput, CannotRunHere
from assay.records.schema import Measurement
from assay.studies import text_capture
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("host",)
SUPPLIES = True
_WAIT_S = 60.0  # nobody waits for this model, so it may wait for the disk


def cells(study: Study) -> list[Cell]:
    """One, where the study names a model."""
    if not study.capture_model:
        return []
    options = {
        "to": study.capture_to,
        "text": study.capture_text,
        "tokens": study.capture_tokens,
        "decode": study.capture_decode,
        "layers": study.capture_layers,
        "dtype": study.capture_dtype,
    }
    name = study.capture_model
    return [Cell(name=name, subjects=(name,), device=study.device, options=options)]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """How many records the store has of it, and how many calls were lost."""
    (model,) = cell.subjects
    yield Begin(model)
    try:
        report = text_capture.carry_out_once(_asked(model, cell))
    except (BadInput, CannotRunHere) as error:
        status = "skipped" if isinstance(error, CannotRunHere) else "failed"
        metric = "load" if isinstance(error, BadInput) else "captured_records"
        yield _measurement(model, metric, None, "", status=status, reason=str(error))
        return
    lost = sum(report.dropped.values())
    yield _measurement(model, "captured_records", report.records, "count")
    yield _measurement(model, "captured_bytes", report.bytes, "B")
    yield _measurement(
        model,
        "dropped_records",
        lost,
        "count",
        status="failed" if lost else "ok",
        reason=report.sentence() if lost else None,
    )


def _asked(model: str, cell: Cell) -> text_capture.TextCapture:
    given = cell.options
    return text_capture.TextCapture(
        model=model,
        to=Path(given["to"]),
        text=given["text"] or None,
        tokens=given["tokens"],
        decode=given["decode"],
        dtype=given["dtype"],
        device=cell.device,
        options=CaptureOptions(layers=given["layers"] or None, wait_s=_WAIT_S),
    )


def _measurement(
    model: str, metric: str, value: float | None, unit: str, **outcome: Any
) -> Measurement:
    source = "manifest of the store"
    return Measurement(
        subject=model,
        metric=metric,
        value=value,
        unit=unit,
        source=source,
        level="model",
        **outcome,
    )
