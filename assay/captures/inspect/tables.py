"""Tables of captured calls: runs, calls (or sites, where there are many) and tensors."""

import math
from collections.abc import Sequence
from dataclasses import replace

from assay.captures.inspect.sites import SiteSummary, site_summaries
from assay.captures.inspect.summary import CallSummary, TensorSummary
from assay.captures.manifest import TOKENS, CaptureRun, Manifest
from assay.reports.numerals import DASH, counted, number, size_in_bytes
from assay.reports.table import Entry, Table

_VERSIONS = ("torch", "jax", "transformers")
_COLUMNS = (
    "phase", "site", "implementation", "q", "k", "dtype", "stored", "entropy (nats)",
    "uniform entropy (nats)", "most on first key", "largest weight", "largest score",
    "largest key channel",
)  # fmt: skip
_SPARE = (
    "implementation", "site", "uniform entropy (nats)", "largest weight", "stored", "dtype", "q",
)  # fmt: skip
_NOTE = (
    "Entropy and largest weight are means over heads; uniform entropy is that of equal weights; "
    "most on first key is of the head that puts most there; the largest key channel is relative to "
    "the median channel of its head."
)
_TENSOR_COLUMNS = (
    "layer", "step", "phase", "tensor", "dtype", "shape", "minimum", "maximum", "mean", "std",
    "absmax / std", "zeros", "not finite", "largest channels",
)  # fmt: skip
_Row = tuple[Entry | str, ...]


def runs_table(manifest: Manifest) -> Table:
    """Origin of the records, what was dropped, and whether each run ended."""
    return Table(
        title="Runs",
        columns=("run", "rank", "model", "host", "versions", "calls", "dropped", "ended"),
        rows=tuple(_run_row(run, manifest) for run in manifest.runs),
        spare=("versions", "host"),
    )


def calls_table(calls: Sequence[CallSummary]) -> Table:
    """A row for each call."""
    rows = ((_layer(call), _step(call), *_row(site_summaries([call])[0])) for call in calls)
    table = Table(
        title=counted(len(calls), "captured call"),
        columns=("layer", "step", *_COLUMNS),
        rows=tuple(rows),
        note=_NOTE,
        spare=_SPARE,
    )
    return _condensed(table)


def sites_table(sites: Sequence[SiteSummary]) -> Table:
    """A row for each site and phase, over all its calls."""
    rows = ((_layer(s.largest_call), _count(len(s.calls)), *_row(s)) for s in sites)
    calls = sum(len(site.calls) for site in sites)
    table = Table(
        title=f"{calls:,} captured calls of {len(sites):,} sites and phases",
        columns=("layer", "calls", *_COLUMNS),
        rows=tuple(rows),
        note=f"{_NOTE} Shapes are those of a site's largest call.",
        spare=_SPARE,
    )
    return _condensed(table)


def tensors_table(calls: Sequence[CallSummary]) -> Table:
    """A row for each tensor of some calls."""
    rows = [
        (_layer(call), _step(call), call.phase or "", name, *_tensor_row(tensor))
        for call in calls
        for name, tensor in call.tensors.items()
    ]
    return Table(
        title="Tensors",
        columns=_TENSOR_COLUMNS,
        rows=tuple(rows),
        note="Channels are numbered head * dim + index. Statistics are of the finite values.",
        spare=("largest channels", "minimum", "maximum", "zeros"),
    )


def run_outcome(run: CaptureRun, manifest: Manifest) -> tuple[bool, str]:
    """Tell whether a run ended, and which calls it dropped: counts with reasons."""
    place = (run.run, run.rank)
    ends = [end for end in manifest.ends if (end.run, end.rank) == place]
    drops = [drop for drop in manifest.drops if (drop.run, drop.rank) == place]
    counts = ends[-1].dropped if ends else drops[-1].counts if drops else {}
    return bool(ends), ", ".join(f"{count:,} {reason}" for reason, count in counts.items())


def model_facts(run: CaptureRun) -> list[str]:
    """Facts known of a run's model: names as they are, numbers with what they count."""
    return [
        value if isinstance(value, str) else f"{value:,} {name}"
        for name, value in run.model.items()
        if value is not None and name != TOKENS
    ]


def _condensed(table: Table) -> Table:
    """Move columns that have one value, or are unknown for one reason, into the note."""
    if len(table.rows) < 2:
        return table
    constant, unknown, kept = [], {}, []
    for at, name in enumerate(table.columns):
        cells = [row[at] for row in table.entries]
        texts, hints = {cell.text for cell in cells}, {cell.hint for cell in cells}
        if texts == {DASH} and len(hints) == 1:
            unknown.setdefault(hints.pop(), []).append(name)
        elif name in ("implementation", "dtype") and len(texts) == 1:
            constant.append(f"{name} {texts.pop()}")
        else:
            kept.append(at)
    lines = [f"All calls have {', '.join(constant)}."] if constant else []
    lines += [f"Unavailable: {', '.join(names)}; {why}." for why, names in unknown.items()]
    return replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in table.rows),
        note=" ".join([*lines, table.note]),
    )


def _run_row(run: CaptureRun, manifest: Manifest) -> _Row:
    calls = [r for r in manifest.records if (r.key.run, r.key.rank) == (run.run, run.rank)]
    versions = ", ".join(f"{n} {run.versions[n]}" for n in _VERSIONS if n in run.versions)
    ended, dropped = run_outcome(run, manifest)
    return (
        run.run,
        str(run.rank),
        ", ".join(model_facts(run)) or DASH,
        run.host[:12],
        versions or DASH,
        _count(len(calls)),
        Entry(text=dropped or "none", tone="refused" if dropped else ""),
        Entry(text="yes" if ended else "no", tone="" if ended else "unfinished"),
    )


def _row(site: SiteSummary) -> _Row:
    largest = site.largest_call
    q, k = largest.tensors.get("q"), largest.tensors.get("k")
    stored = sum(call.stored_bytes for call in site.calls)
    why = largest.why_no_attention or "no query sees two keys"
    return (
        site.phase or "",
        site.site,
        ", ".join(sorted({getattr(c.record, "implementation", None) or DASH for c in site.calls})),
        _shape(q),
        _shape(k),
        k.dtype if k else DASH,
        Entry(text=size_in_bytes(stored), value=float(stored)),
        _number(_mean(site.entropy), why),
        _number(site.uniform_entropy, why),
        _percent(_largest(site.sink), why),
        _percent(_mean(site.largest_weight), why),
        _number(_largest(site.score_absmax), why),
        _key_channel(site),
    )


def _key_channel(site: SiteSummary) -> Entry:
    channels = site.channels("k")
    if channels is None:
        k = site.largest_call.tensors.get("k")
        return Entry(text=DASH, hint=(k.why if k else None) or "there is no k")
    known = [float(times) for times in channels.times_HD.flat if not math.isnan(times)]
    if channels.why or not known:
        return Entry(text=DASH, hint=channels.why or "the keys are zero")
    largest = max(known)
    return Entry(text=f"{largest:.3g}×", value=largest, tone="refused" if channels.outliers else "")


def _tensor_row(tensor: TensorSummary) -> _Row:
    stats = tensor.stats
    shape = (tensor.dtype, _shape(tensor))
    if stats is None:
        return (*shape, *[Entry(text=DASH, hint=tensor.why or "")] * 8)
    ratio = stats.absmax / stats.std if stats.absmax and stats.std else None
    channels = ", ".join(f"{channel}: {number(size)}" for channel, size in stats.outliers[:3])
    nonfinite, why = stats.nonfinite, "no number is finite"
    return (
        *shape,
        _number(stats.minimum, why),
        _number(stats.maximum, why),
        _number(stats.mean, why),
        _number(stats.std, why),
        _number(ratio, "all numbers are equal"),
        _percent(stats.zeros / stats.count if stats.count else None, why),
        Entry(text=f"{nonfinite:,}", value=float(nonfinite), tone="failed" if nonfinite else ""),
        channels or DASH,
    )


def _layer(call: CallSummary) -> Entry:
    if call.key and call.key.layer < 0:
        return Entry(text=DASH, hint="the layer is unknown")
    return _count(call.key and call.key.layer)


def _step(call: CallSummary) -> Entry:
    return _count(call.key and call.key.step)


def _count(value: int | None) -> Entry:
    if value is None:
        return Entry(text=DASH, hint="a file does not say")
    return Entry(text=f"{value:,}", value=value)


def _shape(tensor: TensorSummary | None) -> str:
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


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
