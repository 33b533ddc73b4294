"""A training claim has three seeds or more, the same for every arm, none far from its others."""

from collections import defaultdict
from statistics import median, stdev

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike, fails, holds, named, not_tested

FEWEST = 3
_UNSAID = "not said"
_FAR = 6.0  # standard deviations of all others
_SMALL = 0.01  # of the loss: below it, nothing is far


def look(comparison: RunComparison) -> list[CheckFinding]:
    arms: dict[str, dict[str, float]] = defaultdict(dict)
    for place, record in comparison.ends():
        if record.value is not None:
            arm = f"{place.removesuffix(record.cell)}{record.subject}"
            seed = (record.data or {}).get("seed")
            arms[arm][_UNSAID if seed is None else str(seed)] = record.value
    if not arms:
        trained = any(r.stage == "train" for run in comparison.runs for r in run.records)
        return [not_tested("no last loss, so no seeds are compared")] if trained else []
    few = [arm for arm, losses in arms.items() if len(losses) < FEWEST]
    return [
        (
            fails(f"fewer than {FEWEST} seeds: {named(few)}")
            if few
            else holds(f"at least {FEWEST} seeds for each arm")
        ),
        alike("seeds", [(arm, _listed(losses)) for arm, losses in arms.items()]),
        *_outliers(arms),
    ]


def _listed(losses: dict[str, float]) -> str | None:
    """The seeds of an arm; None where one is not said."""
    return None if _UNSAID in losses else ", ".join(sorted(losses))


def _outliers(arms: dict[str, dict[str, float]]) -> list[CheckFinding]:
    """Distances from an arm's median, each held against those of all other runs."""
    distances = {
        (arm, seed): value - median(losses.values())
        for arm, losses in arms.items()
        if len(losses) >= FEWEST
        for seed, value in losses.items()
    }
    far = []
    for (arm, seed), distance in distances.items():
        others = [other for place, other in distances.items() if place != (arm, seed)]
        is_large = abs(distance) > _SMALL * abs(arms[arm][seed])
        if is_large and abs(distance) > _FAR * stdev(others):
            far.append(f"{arm} seed {seed} ({distance:+.3f} from the median)")
    if not distances:
        return []
    return [fails(f"far from the other seeds: {named(far)}") if far else holds("no outlier")]
