"""All checks over one run or two."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay import plugins
from assay.errors import BadInput
from assay.records.schema import CELL_METRICS
from assay.verify.checks.differences import differing
from assay.verify.compared import YARDSTICKS, ComparedRun, RunComparison
from assay.verify.finding import CheckFinding

KIND = "checks"
_ORDER = ("fails", "not tested", "holds")


def judge(comparison: RunComparison) -> list[CheckFinding]:
    """Run every check, and list failures first. A check that has nothing to look at is silent."""
    _require_something_in_common(comparison)
    findings = []
    for name, plugin in plugins.listing(KIND).items():
        look = plugins.load(plugin).look
        findings += [replace(finding, check=name) for finding in look(comparison)]
    return sorted(findings, key=lambda finding: _ORDER.index(finding.verdict))


def are_comparable(findings: Sequence[CheckFinding]) -> bool:
    """True where no check fails; one that could not look is no failure."""
    return all(finding.verdict != "fails" for finding in findings)


def _require_something_in_common(comparison: RunComparison) -> None:
    metrics = [{r.metric for r in run.records} - set(CELL_METRICS) for run in comparison.runs]
    if not set.intersection(*metrics):
        names = " and ".join(run.name for run in comparison.runs)
        raise BadInput(
            f"{names} share no metric, so there is nothing to compare; give runs of studies with "
            "the same stages"
            if len(metrics) > 1
            else f"{names} holds no measurement yet; run or resume it first"
        )


def compare(
    runs: tuple[ComparedRun, ...],
    *,
    treatment: Sequence[str],
    explained: Mapping[str, str],
    remote: str | None = None,
) -> RunComparison:
    """Runs as they are to be compared; what is named and does not differ is refused. A name of
    another program stands for the symbol that it was read as."""
    symbols = {own: ours for run in runs if run.origin for own, ours in run.origin.keys.items()}
    comparison = RunComparison(
        runs=runs,
        treatment=tuple(symbols.get(name, name) for name in treatment),
        explained={symbols.get(name, name): why for name, why in explained.items()},
        remote=remote,
    )
    for name in comparison.treatment:
        if name in YARDSTICKS:
            raise BadInput(
                f"--treatment {name}: what is measured with cannot be what is compared; run both "
                "with the same"
            )
        if len(comparison.values(name)) < 2:
            raise BadInput(f"--treatment {name}: the runs do not differ in a symbol of that name")
    names = differing(comparison)
    for name in sorted(comparison.explained.keys() - names):
        raise BadInput(
            f"--explain {name}: the runs do not differ in anything of that name; they differ in "
            f"{', '.join(sorted(names)) or 'nothing'}"
        )
    return comparison


def explanations(entries: Sequence[str]) -> dict[str, str]:
    """Reasons by name, from entries such as versions.jax=WHY."""
    pairs = [entry.partition("=") for entry in entries]
    if wrong := [entry for entry, (_, _, why) in zip(entries, pairs, strict=True) if not why]:
        raise BadInput(f"--explain {wrong[0]!r} gives no reason; wanted NAME=WHY")
    return {name: why for name, _, why in pairs}
