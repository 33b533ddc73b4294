"""Captured calls as tables: runs, calls (or sites, where there are many) and tensors."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from assay.reports.numerals import DASH, number, size_in_bytes
from assay.reports.table import Entry, Table

if TYPE_CHECKING:
    from assay.captures.inspect.sites import SiteSummary
    from assay.captures.inspect.summary import CallSummary, TensorSummary
    from assay.captures.manifest import CaptureRun, Manifest

MOST_ROWS = 60  # calls that are told one by one
_VERSIONS = ("torch", "jax", "transformers")


def runs_table(manifest: "Manifest") -> Table:
    """Where the records come from, what was lost, and whether each run ended."""
    return Table(
        title="Runs",
        columns=("run", "rank", "model", "host", "versions", "calls", "dropped", "ended"),
        rows=tuple(_run_row(run, manifest) for run in manifest.runs),
        spare=("versions", "host"),
    )


def calls_table(calls: Sequence["CallSummary"]) -> Table:
    """A row for each call."""
    from assay.captures.inspect.sites import site_summaries

    alone = [(call, site_summaries([call])[0]) for call in calls]
    found = Table(
        title=f"{len(calls):,} captured call{'s' if len(calls) > 1 else ''}",
        columns=("layer", "step", "phase", "site", *_COLUMNS),
        rows=tuple((_layer(site), _step_of(call), *_row(site)) for call, site in alone),
        note=_NOTE,
        spare=_SPARE,
    )
    return _said_once(found)


def sites_table(found: Sequence["SiteSummary"]) -> Table:
    """A row for each site and phase, its steps told as one."""
    calls = sum(len(site.calls) for site in found)
    told = Table(
        title=f"{calls:,} captured calls of {len(found):,} sites and phases",
        columns=("layer", "calls", "phase", "site", *_COLUMNS),
        rows=tuple((_layer(site), _count(len(site.calls)), *_row(site)) for site in found),
        note=f"{_NOTE} Shapes are those of a site's largest call.",
        spare=_SPARE,
    )
    return _said_once(told)


def tensors_table(calls: Sequence["CallSummary"]) -> Table:
    """The numbers of every tensor of some calls."""
    rows = [
        (_layer_of(call), _step_of(call), call.phase or "", name, *_tensor_row(tensor))
        for call in calls
        for name, tensor in call.tensors.items()
    ]
    return Table(
        title="Tensors",
        columns=_TENSOR_COLUMNS,
        rows=tuple(rows),
        note="A channel is counted as head * dim + place. Numbers are of finite values.",
        spare=("largest channels", "minimum", "maximum", "zeros"),
    )


_TENSOR_COLUMNS = (
    "layer", "step", "phase", "tensor", "dtype", "shape", "minimum", "maximum", "mean", "std",
    "absmax / std", "zeros", "not finite", "largest channels",
)  # fmt: skip
_COLUMNS = (
    "implementation", "q", "k", "dtype", "stored", "entropy (nats)", "of", "most on first key",
    "largest weight", "largest score", "farthest key channel",
)  # fmt: skip
_SPARE = ("implementation", "site", "of", "largest weight", "stored", "dtype", "q")
_NOTE = (
    "Entropy and the largest weight are means over heads, `of` is the entropy of equal weights; "
    "most on first key is of the head that puts most there; the farthest key channel is in times "
    "the median of its head."
)


def _said_once(table: Table) -> Table:
    """The table with columns that say the same in every row told in its note."""
    if len(table.rows) < 2:
        return table
    same, unknown = [], {}
    for at in reversed(range(len(table.columns))):
        name, column = table.columns[at], [row[at] for row in table.entries]
        texts, hints = {cell.text for cell in column}, {cell.hint for cell in column}
        if texts == {DASH} and len(hints) == 1:
            unknown.setdefault(hints.pop(), []).insert(0, name)
        elif name in ("implementation", "dtype") and len(texts) == 1:
            same.insert(0, f"{name} {texts.pop()}")
        else:
            continue
        columns = table.columns[:at] + table.columns[at + 1 :]
        rows = tuple(row[:at] + row[at + 1 :] for row in table.rows)
        table = replace(table, columns=columns, rows=rows)
    lines = [f"Every call has {', '.join(same)}."] if same else []
    lines += [f"Not known: {', '.join(names)}; {why}." for why, names in unknown.items()]
    return replace(table, note=" ".join([*lines, table.note]))


def _run_row(run: "CaptureRun", manifest: "Manifest") -> tuple[Entry | str, ...]:
    mine = [r for r in manifest.records if (r.key.run, r.key.rank) == (run.run, run.rank)]
    ends = [end for end in manifest.ends if (end.run, end.rank) == (run.run, run.rank)]
    losses = [drop for drop in manifest.drops if (drop.run, drop.rank) == (run.run, run.rank)]
    dropped = ends[0].dropped if ends else losses[0].counts if losses else {}
    lost = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    versions = ", ".join(f"{n} {run.versions[n]}" for n in _VERSIONS if n in run.versions)
    model = ", ".join(model_facts(run))
    return (
        run.run,
        str(run.rank),
        model or DASH,
        run.host[:12],
        versions or DASH,
        _count(len(mine)),
        Entry(text=lost or "none", tone="refused" if lost else ""),
        Entry(text="yes" if ends else "no", tone="" if ends else "unfinished"),
    )


def model_facts(run: "CaptureRun") -> list[str]:
    """What is known of a run's model: its names as they are, numbers with what they count."""
    return [
        value if isinstance(value, str) else f"{value:,} {name}"
        for name, value in run.model.items()
        if value is not None
    ]


def _row(site: "SiteSummary") -> tuple[Entry | str, ...]:
    call = site.largest_call
    q, k = call.tensors.get("q"), call.tensors.get("k")
    return (
        site.phase or "",
        site.site,
        ", ".join(sorted({each.implementation or DASH for each in site.calls})),
        _shape(q),
        _shape(k),
        k.dtype if k else DASH,
        _bytes(sum(each.stored_bytes for each in site.calls)),
        *_attention_row(site),
        _channel(site),
    )


def _attention_row(site: "SiteSummary") -> tuple[Entry, ...]:
    why = site.largest_call.why_no_attention or "no query sees two keys"
    return (
        _number(_mean(site.entropy), why),
        _number(site.uniform_entropy, why),
        _percent(max((s for s in site.sink if s is not None), default=None), why),
        _percent(_mean(site.largest), why),
        _number(max((s for s in site.score_absmax if s is not None), default=None), why),
    )


def _channel(site: "SiteSummary") -> Entry:
    import math

    channels = site.channels("k")
    if channels is None:
        k = site.largest_call.tensors.get("k")
        return Entry(text=DASH, hint=(k.why if k else None) or "there is no k")
    known = [float(t) for t in channels.times_HD.reshape(-1) if not math.isnan(t)]
    if channels.why or not known:
        return Entry(text=DASH, hint=channels.why or "the keys are zero")
    farthest = max(known)
    tone = "refused" if channels.outliers else ""
    return Entry(text=f"{farthest:.3g}×", value=farthest, tone=tone)


def _tensor_row(tensor: "TensorSummary") -> tuple[Entry | str, ...]:
    stats = tensor.stats
    shape = (tensor.dtype, _shape(tensor))
    if stats is None:
        unknown = Entry(text=DASH, hint=tensor.why or "")
        return (*shape, *(unknown for _ in range(8)))
    ratio = stats.absmax / stats.std if stats.absmax and stats.std else None
    channels = ", ".join(f"{channel}: {number(size)}" for channel, size in stats.outliers[:3])
    why = "no number is finite"
    return (
        *shape,
        _number(stats.minimum, why),
        _number(stats.maximum, why),
        _number(stats.mean, why),
        _number(stats.std, why),
        _number(ratio, "all numbers are equal"),
        _percent(stats.zeros / stats.count if stats.count else None, why),
        Entry(
            text=f"{stats.nonfinite:,}",
            value=float(stats.nonfinite),
            tone="failed" if stats.nonfinite else "",
        ),
        channels or DASH,
    )


def _layer(site: "SiteSummary") -> Entry | str:
    return _layer_of(site.largest_call)


def _layer_of(call: "CallSummary") -> Entry | str:
    if call.key is None or call.key.layer < 0:
        return Entry(
            text=DASH, hint="the layer is not known" if call.key else "a file does not say"
        )
    return _count(call.key.layer)


def _step_of(call: "CallSummary") -> Entry:
    return _count(call.key.step if call.key else None)


def _count(value: int | None) -> Entry:
    if value is None:
        return Entry(text=DASH, hint="a file does not say")
    return Entry(text=f"{value:,}", value=value)


def _bytes(count: int) -> Entry:
    return Entry(text=size_in_bytes(count), value=float(count))


def _shape(tensor: "TensorSummary | None") -> str:
    return "×".join(map(str, tensor.shape)) if tensor else DASH


def _number(value: float | None, why: str) -> Entry:
    if value is None:
        return Entry(text=DASH, hint=why)
    return Entry(text=number(float(f"{value:.4g}")), value=value)


def _percent(value: float | None, why: str) -> Entry:
    if value is None:
        return Entry(text=DASH, hint=why)
    return Entry(text=f"{100 * value:.1f} %", value=value)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
