"""Published figures of others, held against records of ours.

    claims/published/fa3-cudnn-8192.toml
    says = "cuDNN's forward reaches 529 TFLOP/s: causal, head dimension 128, 8,192 tokens."
    source = "FlashAttention-3, chart of forward speeds in fp16"
    figure = 529.0
    unit = "TFLOP/s"                # of the record, or TFLOP/s and GB/s by formula over its time
    tolerance = 0.05                # the share by which ours may differ
    [conditions]                    # under which it was measured: of the workload, and the device
    device = "NVIDIA H100"          # as the device's name begins
    head_dim = 128
    [records]                       # ours; [against] makes it a ratio, as in a claim
    evidence = "grid-mha-h200"
    where = { metric = "latency_ms", subject = "sdpa_cudnn", cell = "b1_h32_..." }

It is confirmed, not confirmed, or not comparable where a condition is another one or is not known
of our record. None of these is a failure of ours.

    python -m tools.published        writes the table of docs/results/published.md
"""

import tomllib
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from assay.errors import BadInput
from assay.host import CHECKOUT
from assay.laws.rates import rates
from assay.records.schema import Record
from assay.verify import evidence
from assay.verify.claim import RecordSelection, select
from assay.verify.compared import ComparedRun
from assay.verify.compared import load as load_run
from assay.verify.marked_tables import written
from tools.remeasured import RepeatedFigure

FOLDER = CHECKOUT / "claims" / "published"
PAGE = CHECKOUT / "docs" / "results" / "published.md"
_BY_FORMULA = {"TFLOP/s": "tflops", "GB/s": "gbps"}


class PublishedFigure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of claims/published/."""

    says: str
    source: str
    figure: float
    unit: str
    tolerance: float
    records: RecordSelection
    against: RecordSelection | None = None
    conditions: dict[str, str | int | float | bool] = {}


def load(path: Path) -> PublishedFigure:
    """Read a file; what is missing, misspelt or of the wrong type is refused by name."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), PublishedFigure)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not a published figure: {error}") from error


def judge(published: PublishedFigure) -> RepeatedFigure:
    """Hold a published figure against the record of ours that it names."""
    run = _run(published.records.evidence)
    record = select(published.records, run.records)
    ours = _value(published, record, run)
    if published.against:
        other = _run(published.against.evidence)
        ours /= _value(published, select(published.against, other.records), other)
    measured = {"before": published.figure, "again": ours}
    known = _conditions(record, run)
    unlike = [
        f"{name} {known.get(name, 'not recorded')}, not {wanted}"
        for name, wanted in published.conditions.items()
        if not _is_alike(known.get(name), wanted)
    ]
    if unlike:
        return RepeatedFigure(word="not comparable", reason="; ".join(unlike), **measured)
    off = ours / published.figure - 1
    word = "confirmed" if abs(off) <= published.tolerance else "not confirmed"
    reason = f"{off:+.1%} from it, {published.tolerance:.0%} allowed"
    return RepeatedFigure(word=word, reason=reason, **measured)


def judge_all() -> dict[str, tuple[PublishedFigure, RepeatedFigure]]:
    """All files of the folder by name."""
    figures = {path.stem: load(path) for path in sorted(FOLDER.glob("*.toml"))}
    return {name: (published, judge(published)) for name, published in figures.items()}


def table() -> str:
    """The rows of the page."""
    rows = [
        f"| [{name}](../../claims/published/{name}.toml) | {published.says} | {published.source} | "
        f"{_number(published.figure)} | {_number(repeated.again)} | "
        f"{repeated.word}: {repeated.reason} |"
        for name, (published, repeated) in judge_all().items()
    ]
    heads = (
        "| file | sentence | source | published | ours | verdict |",
        "|---|---|---|---|---|---|",
    )
    return "\n".join([*heads, *rows, ""])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1e5 else f"{value:.4g}"


def _value(published: PublishedFigure, record: Record, run: ComparedRun) -> float:
    if attribute := _BY_FORMULA.get(published.unit):
        own = rates(run.records).get(id(record))
        value = getattr(own, attribute) if own else None
    elif record.unit != published.unit and not published.against:
        raise BadInput(f"{record.metric} is in {record.unit!r}, the figure in {published.unit!r}")
    else:
        value = median(record.samples) if record.samples else record.value
    if value is None:
        raise BadInput(f"{record.metric} of {record.subject!r} gives no {published.unit}")
    return value


def _conditions(record: Record, run: ComparedRun) -> dict[str, Any]:
    names = {str(device.get("name")) for device in run.gpus if device}
    spec = record.workload.spec if record.workload else {}
    return {**spec, "device": ", ".join(sorted(names)) or "CPU"}


def _is_alike(known: Any, wanted: Any) -> bool:
    return str(known).startswith(wanted) if isinstance(wanted, str) else known == wanted


@cache
def _run(name: str) -> ComparedRun:
    if not (evidence.FOLDER / name).is_dir():
        raise BadInput(f"a published figure names evidence/{name}, and there is no such folder")
    return load_run(evidence.FOLDER / name)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), {"published": table}))
