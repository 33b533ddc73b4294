"""How the outputs of captured workloads compare with what the model itself computed."""

from collections.abc import Sequence

from assay.records.schema import Record

_DIFFERENT = "replayed_differences"
_LARGEST = "replayed_largest_difference"


def replayed(records: Sequence[Record]) -> list[str]:
    """A sentence for each subject whose outputs were held against a model's."""
    found: dict[str, dict[str, list[float]]] = {}
    for record in records:
        if record.metric in (_DIFFERENT, _LARGEST) and record.value is not None:
            of_subject = found.setdefault(record.subject, {_DIFFERENT: [], _LARGEST: []})
            of_subject[record.metric].append(record.value)
    return [_sentence(subject, values) for subject, values in found.items()]


def _sentence(subject: str, values: dict[str, list[float]]) -> str:
    counts = values[_DIFFERENT]
    same = sum(not count for count in counts)
    start = f"{subject} gives the model's output bit for bit on {same} of {len(counts)} captured"
    if same == len(counts):
        return f"{start} workloads"
    return f"{start} workloads; elsewhere it is off by up to {max(values[_LARGEST]):.3g}"
