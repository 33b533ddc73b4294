"""Tables of laws: growth, crossings, where memory ends, what to use, changes between runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.laws.crossover import Crossover
from assay.laws.fitted import Laws
from assay.laws.growth import Exponent
from assay.laws.oom import OomLength
from assay.laws.regression import Change
from assay.laws.thresholds import Recommendation
from assay.records.check_answer import PASS, Answer
from assay.reports.numerals import DASH, counted, number
from assay.reports.table import Entry, Table, number_entry, percent_entry, tabulate

_LOWEST_SHARE = 0.005  # a term below this is left out of the words
_CHANGES_NOTE = (
    "Time now over time then, with a 99 % interval. Where both runs timed another subject beside "
    "it, that subject's change is divided out. Slower means that the interval lies wholly above "
    "the threshold with and without that correction; the threshold is 1 %, or three standard "
    "deviations between processes of one program, as measured now."
)


def tables_of(laws: Laws) -> list[Table]:
    """The tables of all laws that were fitted."""
    tables = (
        exponents_table(laws.exponents),
        crossovers_table(laws.crossovers),
        oom_lengths_table(laws.oom_lengths),
        recommendations_table(laws.recommendations, laws.devices),
    )
    return [table for table in tables if table]


def law_answer(laws: Laws) -> Answer:
    """The laws in lines: what to use, else what overtakes what, else how values grow."""
    advice = [
        f"{law.workloads.heads}/{law.workloads.kv_heads} heads x {law.workloads.head_dim}, "
        f"{law.workloads.dtype}: {law.words}"
        for law in laws.recommendations
    ]
    crossings = [
        f"{law.subject} against {law.against}, {law.metric}: {law.words}; {law.setting.shape}"
        for law in laws.crossovers
        if law.outcome != "not compared"
    ]
    growth = [
        f"{law.metric} of {law.subject} grows as S^{law.value:.2f} ({law.low:.2f} to "
        f"{law.high:.2f}); {law.setting.shape}"
        for law in laws.exponents
        if law.value is not None and law.is_certain
    ]
    nothing = "the growth is too uncertain for a law; measure more lengths, or more rounds"
    return Answer(word=PASS, lines=tuple(advice or crossings or growth or [nothing]))


def exponents_table(exponents: Sequence[Exponent]) -> Table | None:
    """A row for each curve of enough lengths; None where there is none."""
    fitted = [law for law in exponents if law.value is not None]
    few = len(exponents) - len(fitted)
    left_out = f" {counted(few, 'curve')} with too few lengths left out." if few else ""
    columns = {
        "workload": lambda law: law.setting.shape,
        "subject": lambda law: law.subject,
        "metric": lambda law: law.metric,
        "exponent": _exponent,
        "lengths fitted": lambda law: f"{law.lengths[0]:,}–{law.lengths[-1]:,}, {len(law.lengths)}",
        "at the longest": _shares,
    }
    note = (
        "The 95 % interval of the exponent is in brackets. Only lengths within a factor of 8 of "
        f"the longest are fitted, or the three longest.{left_out}"
    )
    hosts = [law.setting.host for law in fitted]
    spare = ("at the longest", "lengths fitted")
    return _by_host("Growth with length", fitted, hosts, columns, note=note, spare=spare)


def crossovers_table(crossovers: Sequence[Crossover]) -> Table | None:
    """A row for each subject and its peer; None where there is none."""
    columns = {
        "workload": lambda law: law.setting.shape,
        "metric": lambda law: law.metric,
        "subject": lambda law: law.subject,
        "against": lambda law: law.against,
        "outcome": lambda law: law.words,
        "not compared": _unpaired,
    }
    note = "From paired rounds; the 95 % bootstrap interval of the length is in brackets."
    hosts = [law.setting.host for law in crossovers]
    spare = ("not compared",)
    return _by_host("Crossovers", crossovers, hosts, columns, note=note, spare=spare)


def oom_lengths_table(limits: Sequence[OomLength]) -> Table | None:
    """A row for each curve of a peak that is known well enough; None where there is none."""
    known = [law for law in limits if law.predicted is not None or law.observed is not None]
    columns = {
        "workload": lambda law: law.shape,
        "subject": lambda law: law.subject,
        "metric": lambda law: law.metric,
        "predicted": _predicted,
        "observed": lambda law: _length(law.observed, "no stage measured it"),
        "predicted / observed": _difference,
    }
    hosts = [law.host for law in known]
    return _by_host("Length at which memory runs out (tokens)", known, hosts, columns)


def recommendations_table(
    recommendations: Sequence[Recommendation], devices: Mapping[str, str | None]
) -> Table | None:
    """A row for each class of workloads; `devices` names the device of each host."""

    def advice(law: Recommendation) -> str:
        host = law.workloads.host
        return f"{law.words} on {devices.get(host) or f'host {host}'}"

    def heads(law: Recommendation) -> str:
        workloads = law.workloads
        return f"{workloads.heads}/{workloads.kv_heads} x {workloads.head_dim}"

    columns = {
        "heads/kv heads x dim": heads,
        "dtype": lambda law: law.workloads.dtype,
        "mask": lambda law: "causal" if law.workloads.causal else "full",
        "batches": lambda law: ", ".join(map(str, law.batches)),
        "recommendation": advice,
    }
    note = "A choice changes only where the 95 % interval of the paired ratio is wholly below 1."
    return (
        tabulate("Recommendations", recommendations, columns, note=note)
        if recommendations
        else None
    )


def changes_table(changes: Sequence[Change], run: str) -> Table:
    """Each metric that two runs have in common; `run` is the earlier one."""
    unknown = Entry(text=DASH, hint="the noise was not measured, so nothing is called slower")
    slower = Entry(text="slower", tone="failed")
    columns = {
        "workload": lambda change: change.workload,
        "metric": lambda change: change.metric,
        "subject": lambda change: change.subject,
        "relative to": lambda change: change.control or DASH,
        "ratio": lambda change: number_entry(change.ratio),
        "99 % interval": lambda change: f"{number(change.low)}–{number(change.high)}",
        "threshold": lambda change: (
            unknown if change.threshold is None else percent_entry(change.threshold)
        ),
        "verdict": lambda change: (
            "not judged" if change.threshold is None else slower if change.slower else "not slower"
        ),
    }
    return tabulate(f"Since {run}", changes, columns, note=_CHANGES_NOTE)


def _by_host(
    title: str,
    laws: Sequence[Any],
    hosts: Sequence[str],
    columns: Mapping[str, Callable[[Any], Entry | str]],
    *,
    note: str = "",
    spare: tuple[str, ...] = (),
) -> Table | None:
    """A table of laws, with each row's host before it where there is more than one host."""
    if not laws:
        return None
    table = tabulate(title, laws, columns, note=note, spare=spare)
    if len(set(hosts)) < 2:
        return table
    rows = tuple((host, *row) for host, row in zip(hosts, table.rows, strict=True))
    return replace(table, columns=("host", *table.columns), rows=rows)


def _exponent(law: Exponent) -> Entry:
    if not law.is_certain:
        return Entry(text=f"too uncertain ({law.low:.1f} to {law.high:.1f})")
    interval = f"{law.low:.3f}–{law.high:.3f}"
    return Entry(text=f"{law.value:.3f}", detail=interval, value=law.value)


def _shares(law: Exponent) -> str:
    if not law.is_certain:
        return DASH
    parts = (f"{share:.0%} {name}" for name, share in law.shares.items() if share >= _LOWEST_SHARE)
    return ", ".join(parts) or DASH


def _unpaired(law: Crossover) -> str:
    if law.outcome == "not compared":
        return ""
    return "; ".join(f"{length:,}: {reason}" for length, reason in law.unpaired.items())


def _length(length: float | None, reason: str) -> Entry:
    if length is None:
        return Entry(text=DASH, hint=reason)
    return Entry(text=f"{length:,.0f}", value=length)


def _predicted(law: OomLength) -> Entry:
    entry = replace(_length(law.predicted, ""), hint=law.reason or "")
    if law.low is None or law.high is None:
        return entry
    return replace(entry, detail=f"{law.low:,.0f}–{law.high:,.0f}")


def _difference(law: OomLength) -> Entry:
    if law.difference is None:
        return Entry(text=DASH, hint="needs both a prediction and an observation")
    return Entry(text=number(1 + law.difference), value=law.difference)
