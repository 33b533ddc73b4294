"""Incremental decode through caches: time of a token and bytes, layouts interleaved step by step.

Every cache reads the same prompt and then the same tokens of the text, one by one. On a GPU kernels
read what is kept as it is, where there is one for the layout; elsewhere attention reads a decoded
copy of the whole cache in each step, and its times say nothing of what fewer bytes are worth. The
source of a time says which of the two it was.
"""

from collections.abc import Iterator
from statistics import median
from typing import Any

from assay.errors import BadInput, CannotRunHere
from assay.models.pretrained import sample_text
from assay.records.schema import Measurement, WorkloadIdentity
from assay.studies.cell import Cell
from assay.studies.stages import cache_quality
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("cache_quality",)
REQUIRES = ("torch",)
USES = ("torch",)


def cells(study: Study) -> list[Cell]:
    """One for the model of CACHE_MODEL, with all layouts."""
    from dataclasses import replace

    return [
        replace(cell, options={**cell.options, "decode": study.cache_decode})
        for cell in cache_quality.cells(study)
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """Yield the seconds of a step and the bytes at its end for every layout."""
    from assay.quality import decoding, readers

    options = cell.options
    prompt, steps = options["window"], options["decode"]
    try:
        text = sample_text.read_given(options["text"] or None)
        reader = readers.open_reader(cell.name, dtype=options["dtype"], device=cell.device)
        ids = readers.windows_of(
            reader.token_ids(text.text), tokens=prompt + steps, window=prompt + steps,
            source=text.source,
        )  # fmt: skip
    except (BadInput, CannotRunHere) as error:
        status = "failed" if isinstance(error, BadInput) else "skipped"
        for name in cell.subjects:
            yield _measurement(name, "cache_token_s", None, "s", status=status, reason=str(error))
        return
    if too_long := readers.why_too_long(reader, prompt + steps):
        for name in cell.subjects:
            yield _measurement(
                name, "cache_token_s", None, "s", status="unsupported", reason=too_long
            )
        return
    workload = WorkloadIdentity(
        name=f"{cell.name}, {steps:,} tokens behind {prompt:,}",
        spec={
            "model": cell.name, "weights": reader.weights, "text": text.source, "prompt": prompt,
            "steps": steps, "dtype": options["dtype"], "residual": options["residual"],
            "device": cell.device,
        },
        content=text.digest,
    )  # fmt: skip
    yield Begin(cell.name, probe="decode")
    caches = {}
    for name in cell.subjects:
        try:
            caches[name] = decoding.begin(
                reader,
                options["paths"].get(name, name),
                ids[:1, :prompt],
                steps=steps,
                residual=options["residual"],
            )
        except BadInput as error:
            reason = str(error)
            yield _measurement(
                name, "cache_token_s", None, "s", workload, status="unsupported", reason=reason
            )
    for name, decoded in decoding.interleaved(reader, caches, ids[:1, prompt:]):
        source = f"clock around one token, all layouts in turn; {decoded.way}"
        yield _measurement(
            name, "cache_token_s", median(decoded.seconds), "s", workload,
            samples=decoded.seconds, source=source,
        )  # fmt: skip
        wrong = decoded.formula_bytes != decoded.kept_bytes
        reason = f"{decoded.kept_bytes:,} B are kept, {decoded.formula_bytes:,} by formula"
        yield _measurement(
            name, "cache_kept_bytes", decoded.kept_bytes, "B", workload,
            source="tensors", data={"allocated_bytes": decoded.allocated_bytes},
            **({"status": "failed", "reason": reason} if wrong else {}),
        )  # fmt: skip


def _measurement(
    subject: str,
    metric: str,
    value: float | None,
    unit: str,
    workload: WorkloadIdentity | None = None,
    **rest: Any,
) -> Measurement:
    return Measurement(
        subject=subject,
        metric=metric,
        value=value,
        unit=unit,
        level="model",
        workload=workload,
        **rest,
    )
