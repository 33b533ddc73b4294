"""The main table of a bench: a row for each workload and subject, endings among them."""

from collections.abc import Sequence

from assay.laws.pairs import Ratio
from assay.laws.rates import COMPUTE_BOUND, Rate
from assay.records.schema import Record
from assay.reports.baseline import baseline
from assay.reports.kernel_names import short_kernel
from assay.reports.numerals import DASH, number, size_in_bytes
from assay.reports.speed_rows import BACKWARD, FORWARD, TRAINING, Row
from assay.reports.table import Entry, Table, shorten_workloads

PEAK, TRAINING_PEAK = "forward_peak_bytes", "training_peak_bytes"
_TITLES = {"bench": "Speed", "layers": "Speed of layers"}
_NOTE = (
    "Times are medians over rounds, with their quartiles; forward, backward alone, and both. "
    "A ratio is the median of per-round ratios of time, with a 95 % bootstrap interval: below 1 is "
    "faster. TFLOP/s and tokens/s are of the forward pass, its FLOPs by formula; the share is of "
    "the ceiling measured here that its intensity says applies. Peak memory is above the inputs."
)


def bench_table(rows: Sequence[Row], records: Sequence[Record]) -> Table | None:
    """All rows of one stage; a column that nothing is known for is left out."""
    if not rows:
        return None
    stage = rows[0].stage
    first = baseline([r for r in records if r.stage == stage], FORWARD)
    columns = {
        "forward (ms)": lambda row: row.timed(FORWARD),
        f"over {first}": lambda row: _ratio(row, FORWARD, first),
        "backward (ms)": lambda row: row.timed(BACKWARD),
        "both (ms)": lambda row: row.timed(TRAINING),
        "TFLOP/s": _tflops,
        "of ceiling": _share,
        "tokens/s": _tokens,
        "peak forward": lambda row: size(row, PEAK),
        "peak both": lambda row: size(row, TRAINING_PEAK),
        "kernel": _kernel,
    }
    cells = [[entry(row) for entry in columns.values()] for row in rows]
    kept = [i for i in range(len(columns)) if i == 0 or any(_known(line[i]) for line in cells)]
    table = Table(
        title=_TITLES.get(stage, f"Speed of {stage}"),
        columns=("workload", "subject", *(list(columns)[i] for i in kept)),
        rows=tuple(
            (row.workload.name, row.subject, *said_once([line[i] for i in kept]))
            for row, line in zip(rows, cells, strict=True)
        ),
        note=_NOTE,
        spare=("kernel", "tokens/s", "peak both", "of ceiling", "both (ms)"),
    )
    return shorten_workloads(table)


def said_once(entries: Sequence[Entry]) -> list[Entry]:
    """A row's entries, each reason of an absence only where it first stands."""
    seen: set[str] = set()
    said = []
    for entry in entries:
        repeated = entry.needs_reason and entry.hint in seen
        seen |= {entry.hint} if entry.needs_reason else set()
        said.append(Entry(text=DASH) if repeated else entry)
    return said


def size(row: Row, metric: str) -> Entry:
    """A number of bytes, with its instrument as the hint."""
    value = row.value(metric)
    if value is None:
        return row.absent(metric)
    source = row.records[metric].source
    return Entry(
        text=size_in_bytes(int(value)), value=value, hint=f"source: {source}" if source else ""
    )


def interval_text(ratio: Ratio) -> str:
    """The interval of a ratio; empty where one round gave none."""
    if ratio.low is None or ratio.high is None:
        return ""
    return f"{_short(ratio.low)}–{_short(ratio.high)}"


def _ratio(row: Row, metric: str, first: str | None) -> Entry:
    if row.subject == first:
        return Entry(text="first" if row.value(metric) is not None else DASH)
    found = row.ratios.get(metric)
    if found is None:
        return row.absent(metric)
    if found.value is None:
        return Entry(text=DASH, hint=found.reason)
    text = _short(found.value)
    return Entry(text=text, detail=interval_text(found), value=found.value, hint=found.reason)


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _tflops(row: Row) -> Entry:
    rate = row.rates.get(FORWARD)
    return _of_rate(row, rate, rate.tflops if rate else None)


def _tokens(row: Row) -> Entry:
    rate = row.rates.get(FORWARD)
    return _of_rate(row, rate, rate.tokens_per_s if rate else None)


def _of_rate(row: Row, rate: Rate | None, value: float | None) -> Entry:
    if rate is None:
        return row.absent(FORWARD)
    if value is None:
        return Entry(text=DASH, hint=rate.reason or "")
    return Entry(text=number(round(value) if value >= 1e4 else value), value=value)


def _share(row: Row) -> Entry:
    rate = row.rates.get(FORWARD)
    if rate is None:
        return row.absent(FORWARD)
    share = rate.compute_share if rate.bound == COMPUTE_BOUND else rate.memory_share
    if rate.bound is None or share is None:
        return Entry(text=DASH, hint=rate.reason or "")
    tone = "failed" if rate.suspect else ""
    return Entry(
        text=f"{100 * share:.0f} %",
        detail=rate.bound,
        value=share,
        hint=rate.suspect or "",
        tone=tone,
    )


def _kernel(row: Row) -> Entry:
    record = row.records.get("kernels")
    if record is None or not record.source or record.status != "ok":
        return row.absent("kernels")
    return Entry(text=short_kernel(record.source), hint=record.source)


def _known(entry: Entry) -> bool:
    return entry.value is not None or (entry.text != DASH and entry.tone == "")
