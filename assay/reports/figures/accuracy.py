"""Error as a share of what the accuracy check allows, for output and gradients.

One chart for each stage, dtype and mask; a point beyond the line at 1 is a failed check. With many
workloads the implementations are listed instead of them, each with its worst tensor.
"""

from collections.abc import Sequence

from assay.records.schema import Record
from assay.records.verdicts import ERROR_OVER_BUDGET
from assay.reports.chart import Chart, Series
from assay.reports.numerals import counted
from assay.reports.panels import parameters, shared_parameters

_MOST_LISTED = 12  # workloads
_LARGEST_LINEAR = 3.0  # beyond it the points within budget could no longer be told apart


def draw(records: list[Record]) -> list[Chart]:
    """A chart for each stage, dtype and mask that has an error relative to its budget."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        is_error = record.metric.startswith(ERROR_OVER_BUDGET) and record.value is not None
        if is_error and record.workload:
            spec = record.workload.spec
            mask = spec.get("mask") or parameters(spec).get("mask", "unnamed")
            key = (record.stage, str(spec.get("dtype", "unnamed dtype")), str(mask))
            groups.setdefault(key, []).append(record)
    # A single check is in its table; for a figure of it a page would hold Plotly, 5 MB.
    places = {(r.subject, r.workload.name) for own in groups.values() for r in own if r.workload}
    return [_chart(*k, own) for k, own in groups.items() if k[0] != "check" or len(places) > 1]


def _chart(stage: str, dtype: str, mask: str, records: Sequence[Record]) -> Chart:
    logarithmic = max(record.value or 0.0 for record in records) > _LARGEST_LINEAR
    drawn = [record for record in records if record.value or not logarithmic]
    names = _short_names(records)
    exact = len(records) - len(drawn)
    zeros = f"{counted(exact, 'error')} of exactly zero"
    notes = [_shared(records), f"not drawn on a logarithmic axis: {zeros}"]
    return Chart(
        name=f"accuracy_{stage}_{dtype}_{mask}",
        title=f"Error over budget: {stage}, {dtype}, {mask} attention",
        x_label="workload",
        y_label="error over budget (ratio)",
        log_y=logarithmic,
        limit=1.0,
        limit_name="budget",
        series=(_by_subject(drawn, names) if len(names) > _MOST_LISTED else _series(drawn, names)),
        note="; ".join(filter(None, notes if exact else notes[:1])),
    )


def _series(records: Sequence[Record], names: dict[str, str]) -> tuple[Series, ...]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        key = (record.subject, record.metric.removeprefix(ERROR_OVER_BUDGET))
        groups.setdefault(key, []).append(record)
    return tuple(
        Series(
            subject=subject,
            variant=tensor,
            x=tuple(names[r.workload.name] for r in group if r.workload),
            y=tuple(r.value for r in group if r.value is not None),
        )
        for (subject, tensor), group in groups.items()
    )


def _by_subject(records: Sequence[Record], names: dict[str, str]) -> tuple[Series, ...]:
    """A row for each subject, with a point for the worst tensor of each workload."""
    worst: dict[str, dict[str, Record]] = {}
    for record in records:
        assert record.workload
        by_workload = worst.setdefault(record.subject, {})
        known = by_workload.setdefault(record.workload.name, record)
        if (record.value or 0.0) > (known.value or 0.0):
            by_workload[record.workload.name] = record
    return tuple(
        Series(
            subject=subject,
            x=(subject,) * len(by_workload),
            y=tuple(record.value for record in by_workload.values() if record.value is not None),
            hints=tuple(
                f"{names[name]}, {record.metric.removeprefix(ERROR_OVER_BUDGET)}"
                for name, record in by_workload.items()
            ),
        )
        for subject, by_workload in worst.items()
    )


def _shared(records: Sequence[Record]) -> str:
    """The parameters that all workloads have in common, less those in the title."""
    specs = [parameters(record.workload.spec) for record in records if record.workload]
    shared = shared_parameters(specs) - {"mask", "dtype"}
    return ", ".join(word for name, word in specs[0].items() if name in shared)


def _short_names(records: Sequence[Record]) -> dict[str, str]:
    """Each workload's name without the parts that all have; whole where that is ambiguous."""
    names = list(dict.fromkeys(r.workload.name for r in records if r.workload))
    common = set.intersection(*(set(name.split("_")) for name in names))
    short = {
        name: "_".join(part for part in name.split("_") if part not in common) for name in names
    }
    distinct = len(set(short.values())) == len(names) and all(short.values())
    return short if distinct else dict(zip(names, names, strict=True))
