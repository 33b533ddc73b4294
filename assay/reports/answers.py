"""The commonest question first: is it faster than the peer, by how much, and how sure is that?"""

from collections.abc import Sequence
from statistics import geometric_mean

from assay.laws.pairs import Ratio
from assay.reports.speed_rows import BACKWARD, FORWARD, Row

_PASSES = {FORWARD: "forward", BACKWARD: "backward"}


def answers(rows: Sequence[Row]) -> list[str]:
    """A sentence for each subject that was measured beside the first."""
    found: dict[str, dict[str, list[Ratio]]] = {}
    for row in rows:
        for metric in _PASSES:
            if metric in row.ratios and row.ratios[metric].value is not None:
                passes = found.setdefault(row.subject, {})
                passes.setdefault(metric, []).append(row.ratios[metric])
    both = any(BACKWARD in passes for passes in found.values())
    return [_sentence(subject, passes, both=both) for subject, passes in found.items()]


def comparison(ratios: Sequence[Ratio]) -> str:
    """One ratio in words, with its interval as a factor of speed."""
    (found,) = ratios
    assert found.value is not None
    if found.low is None or found.high is None:
        return f"{_factor(found.value)} ({found.reason})"
    if not found.differs:
        return f"no difference ({found.low:.2f}–{found.high:.2f} times as long)"
    ends = (found.low, found.high) if found.value >= 1 else (1 / found.high, 1 / found.low)
    return f"{_factor(found.value)} ({ends[0]:.2f}–{ends[1]:.2f})"


def _sentence(subject: str, passes: dict[str, list[Ratio]], *, both: bool) -> str:
    """Several workloads are told by their mean and by how many differ each way."""
    workloads = max(len(found) for found in passes.values())
    told = comparison if workloads == 1 else _overall
    parts = [
        f"{_PASSES[metric]} {told(found)}" if both else told(found)
        for metric, found in passes.items()
    ]
    against = next(iter(passes.values()))[0].against
    mean = f", mean of {workloads} workloads" if workloads > 1 else ""
    return f"{subject} against {against}{mean}: {'; '.join(parts)}"


def _overall(found: Sequence[Ratio]) -> str:
    """Many workloads in one clause, by the geometric mean of their ratios."""
    values = [one.value for one in found if one.value is not None]
    faster = sum(one.differs for one in found if one.value is not None and one.value < 1)
    slower = sum(one.differs for one in found if one.value is not None and one.value > 1)
    unsure = sum(one.low is None for one in found)
    counts = {
        "faster": faster,
        "slower": slower,
        "level": len(found) - faster - slower - unsure,
        "too few rounds to be sure": unsure,
    }
    ways = ", ".join(f"{word} in {count}" for word, count in counts.items() if count)
    return f"{_factor(geometric_mean(values))} ({ways})"


def _factor(ratio: float) -> str:
    return f"{1 / ratio:.2f}x faster" if ratio < 1 else f"{ratio:.2f}x slower"
