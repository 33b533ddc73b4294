"""The commonest question first: is it faster than the peer, by how much, and how sure is that?"""

from collections.abc import Sequence
from statistics import geometric_mean

from assay.reports.paired import Ratio
from assay.reports.speed_rows import BACKWARD, FORWARD, Row

_PASSES = {FORWARD: "forward", BACKWARD: "backward"}


def answers(rows: Sequence[Row]) -> list[str]:
    """A sentence for each subject that was measured beside the first, and pass."""
    found: dict[tuple[str, str], list[Ratio]] = {}
    for row in rows:
        for metric in _PASSES:
            if metric in row.ratios and row.ratios[metric].value is not None:
                found.setdefault((row.subject, metric), []).append(row.ratios[metric])
    both = any(metric == BACKWARD for _, metric in found)
    names = _PASSES if both else {FORWARD: ""}
    workloads = len({row.workload.name for row in rows})
    subjects = dict.fromkeys(subject for subject, _ in found)
    return [
        _sentence(subject, {names[m]: found[subject, m] for m in names if (subject, m) in found})
        + (f" over {workloads} workloads" if workloads > 1 else "")
        for subject in subjects
    ]


def comparison(found: Ratio) -> str:
    """One ratio in words, with its interval as a factor of speed."""
    assert found.value is not None
    factor, (low, high) = _speed(found.value, found.low, found.high)
    interval = f" ({low:.2f}–{high:.2f})" if low is not None and high is not None else ""
    if low is not None and not found.differs:
        return f"no different from {found.against} ({found.low:.2f}–{found.high:.2f} times as long)"
    word = "faster" if found.value < 1 else "slower"
    certainty = ", one round, so how sure that is is not known" if low is None else ""
    return f"{factor:.2f}x {word} than {found.against}{interval}{certainty}"


def _speed(
    value: float, low: float | None, high: float | None
) -> tuple[float, tuple[float | None, float | None]]:
    """How many times as fast, or as slow, with its bounds; always 1 or more in the middle."""
    if value >= 1:
        return value, (low, high)
    return 1 / value, (1 / high if high else None, 1 / low if low else None)


def _sentence(subject: str, passes: dict[str, list[Ratio]]) -> str:
    parts = []
    for name, found in passes.items():
        told = comparison(found[0]) if len(found) == 1 else _overall(found)
        parts.append(f"{name} {told}".strip())
    return f"{subject}: {'; '.join(parts)}"


def _overall(found: Sequence[Ratio]) -> str:
    """Many workloads in one clause: the mean, its extremes, and how many differ each way."""
    values = [one.value for one in found if one.value is not None]
    middle = geometric_mean(values)
    factor, word = (1 / middle, "faster") if middle < 1 else (middle, "slower")
    faster = sum(one.differs and one.value < 1 for one in found if one.value is not None)
    slower = sum(one.differs and one.value > 1 for one in found if one.value is not None)
    counts = [
        f"faster in {faster}",
        f"slower in {slower}",
        f"level in {len(found) - faster - slower}",
    ]
    return (
        f"{factor:.2f}x {word} than {found[0].against} in the geometric mean "
        f"({', '.join(counts)})"
    )
