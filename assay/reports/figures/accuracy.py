"""Error as a share of what the accuracy check allows, for output and gradients.

One chart for each stage, dtype and mask; a point beyond the line at 1 is a failed check. With many
workloads the implementations are listed instead of them, each with its worst tensor.
"""

from assay.records.schema import Record
from assay.reports.chart import Chart, Series
from assay.reports.facets import Facet, facets

PREFIX = "error_over_budget_"
_MOST_LISTED = 12  # workloads
_LARGEST_LINEAR = 3.0  # beyond it the points within budget could no longer be told apart


def draw(records: list[Record]) -> list[Chart]:
    """A chart for each facet that has an error relative to its budget."""
    found = facets([r for r in records if r.metric.startswith(PREFIX) and r.value is not None])
    return [_chart(facet) for facet in found]


def _chart(facet: Facet) -> Chart:
    logarithmic = max(record.value or 0.0 for record in facet.records) > _LARGEST_LINEAR
    drawn = [record for record in facet.records if record.value or not logarithmic]
    names = facet.short_names
    exact = len(facet.records) - len(drawn)
    notes = [
        facet.shared,
        (
            f"not drawn: {exact} errors of exactly zero, which a logarithmic axis has no place for"
            if exact
            else ""
        ),
    ]
    return Chart(
        name=f"accuracy_{facet.name}",
        title=f"Error over budget: {facet.title}",
        x_label="workload",
        y_label="error over budget (ratio)",
        log_y=logarithmic,
        limit=1.0,
        limit_name="budget",
        series=(_by_subject(drawn, names) if len(names) > _MOST_LISTED else _series(drawn, names)),
        note="; ".join(note for note in notes if note),
    )


def _series(records: list[Record], names: dict[str, str]) -> tuple[Series, ...]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        key = (record.subject, record.metric.removeprefix(PREFIX))
        groups.setdefault(key, []).append(record)
    return tuple(
        Series(
            subject=subject,
            variant=tensor,
            x=tuple(names[r.workload.name] for r in found if r.workload),
            y=tuple(r.value for r in found if r.value is not None),
        )
        for (subject, tensor), found in groups.items()
    )


def _by_subject(records: list[Record], names: dict[str, str]) -> tuple[Series, ...]:
    """A row for each subject, with a point for each workload."""
    worst: dict[tuple[str, str], Record] = {}
    for record in records:
        assert record.workload
        key = (record.subject, record.workload.name)
        if key not in worst or (record.value or 0.0) > (worst[key].value or 0.0):
            worst[key] = record
    return tuple(
        Series(
            subject=subject,
            x=(subject,) * len(found),
            y=tuple(record.value for _, record in found if record.value is not None),
            hints=tuple(f"{names[n]}, {r.metric.removeprefix(PREFIX)}" for n, r in found),
        )
        for subject in dict.fromkeys(subject for subject, _ in worst)
        if (found := [(name, r) for (other, name), r in worst.items() if other == subject])
    )
