"""The laws of some records as tables: growth, crossings, where memory ends, what to use."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.laws.crossover import Crossover
from assay.laws.growth import Exponent
from assay.laws.oom import OomLength
from assay.laws.thresholds import Recommendation
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table

_LOWEST_SHARE = 0.005  # a term below this is left out of the words


def exponents(found: Sequence[Exponent]) -> Table | None:
    """A row for each curve of enough lengths; None where there is none."""
    few = len(found)
    found = [one for one in found if one.value is not None]
    few -= len(found)
    if not found:
        return None
    rows = tuple(
        (
            one.setting.shape,
            one.subject,
            one.metric,
            _exponent(one),
            _range(one.lengths),
            _shares(one.shares),
        )
        for one in found
    )
    table = Table(
        title="How it grows with the length",
        columns=("workload", "subject", "metric", "exponent", "lengths fitted", "at the longest"),
        rows=rows,
        note=(
            "In brackets the 95 % interval of the exponent. Only lengths within a factor of 8 of "
            "the longest are fitted, or the three longest."
            + (f" {few} curves are left out, of which too few lengths are known." if few else "")
        ),
    )
    return _by_host(table, [one.setting.host for one in found])


def crossovers(found: Sequence[Crossover]) -> Table | None:
    """A row for each subject and its peer; None where there is none."""
    if not found:
        return None
    rows = tuple(
        (one.setting.shape, one.metric, one.subject, one.against, one.words, _left_out(one))
        for one in found
    )
    table = Table(
        title="Where one overtakes another",
        columns=("workload", "metric", "subject", "against", "outcome", "left out"),
        rows=rows,
        note="From paired rounds; in brackets the 95 % bootstrap interval of the length.",
    )
    return _by_host(table, [one.setting.host for one in found])


def oom_lengths(found: Sequence[OomLength]) -> Table | None:
    """A row for each curve of a peak that is known well enough; None where there is none."""
    found = [one for one in found if one.predicted is not None or one.observed is not None]
    if not found:
        return None
    rows = tuple(
        (one.shape, one.subject, one.metric, _predicted(one), _observed(one), _difference(one))
        for one in found
    )
    columns = ("workload", "subject", "metric", "predicted", "observed", "predicted / observed")
    table = Table(title="At which length memory runs out (tokens)", columns=columns, rows=rows)
    return _by_host(table, [one.host for one in found])


def recommendations(
    found: Sequence[Recommendation], devices: Mapping[str, str | None]
) -> Table | None:
    """A row for each class of workloads; `devices` names the device of each host."""
    if not found:
        return None
    rows = []
    for one in found:
        which = one.workloads
        heads = f"{which.heads}/{which.kv_heads} x {which.head_dim}"
        mask = "causal" if which.causal else "full"
        device = devices.get(which.host) or f"host {which.host}"
        batches = ", ".join(map(str, one.batches))
        rows.append((heads, which.dtype, mask, batches, f"{one.words} on {device}"))
    return Table(
        title="What to use",
        columns=("heads/kv heads x dim", "dtype", "mask", "batches", "recommendation"),
        rows=tuple(rows),
        note="A choice changes only where the 95 % interval of the paired ratio is wholly below 1.",
    )


def _by_host(table: Table, hosts: Sequence[str]) -> Table:
    """The table with each row's host before it, where there is more than one."""
    if len(set(hosts)) < 2:
        return table
    rows = tuple((host, *row) for host, row in zip(hosts, table.rows, strict=True))
    return replace(table, columns=("host", *table.columns), rows=rows)


def _exponent(one: Exponent) -> Entry:
    if one.value is None:
        return Entry(text=DASH, hint=one.reason or "")
    return Entry(text=f"{one.value:.3f}", detail=f"{one.low:.3f}–{one.high:.3f}", value=one.value)


def _range(lengths: Sequence[int]) -> str:
    return f"{lengths[0]:,}–{lengths[-1]:,}, {len(lengths)}" if len(lengths) > 1 else str(*lengths)


def _shares(shares: Mapping[str, float]) -> str:
    told = {name: share for name, share in shares.items() if share >= _LOWEST_SHARE}
    return ", ".join(f"{share:.0%} {name}" for name, share in told.items()) or DASH


def _left_out(one: Crossover) -> str:
    if one.outcome == "not compared":
        return ""
    return "; ".join(f"{length:,}: {reason}" for length, reason in one.unpaired.items())


def _predicted(one: OomLength) -> Entry:
    if one.predicted is None:
        return Entry(text=DASH, hint=one.reason or "")
    interval = ""
    if one.low is not None and one.high is not None:
        interval = f"{one.low:,.0f}–{one.high:,.0f}"
    text = f"{one.predicted:,.0f}"
    return Entry(text=text, detail=interval, value=one.predicted, hint=one.reason or "")


def _observed(one: OomLength) -> Entry:
    if one.observed is None:
        return Entry(text=DASH, hint="no length was found by trying")
    return Entry(text=f"{one.observed:,.0f}", value=one.observed)


def _difference(one: OomLength) -> Entry:
    if one.difference is None:
        return Entry(text=DASH, hint="it takes both a prediction and an observation")
    return Entry(text=number(1 + one.difference), value=one.difference)
