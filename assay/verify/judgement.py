"""All checks over one run or two."""

from collections.abc import Sequence
from dataclasses import replace

from assay import plugins
from assay.errors import BadInput
from assay.records.schema import CELL_METRICS
from assay.verify.compared import RunComparison
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
