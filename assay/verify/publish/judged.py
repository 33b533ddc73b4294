"""Judgement of runs that are published together: each by itself, and two of them as a pair."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.errors import BadInput
from assay.verify.compared import ComparedRun, RunComparison, distinct, load
from assay.verify.finding import CheckFinding
from assay.verify.judgement import compare, judge


@dataclass(frozen=True, kw_only=True)
class JudgedRuns:
    """Runs with the findings on each, and on the pair where there are two."""

    runs: tuple[ComparedRun, ...]
    findings: tuple[tuple[CheckFinding, ...], ...]
    pair: RunComparison | None = None
    pair_findings: tuple[CheckFinding, ...] = ()
    untested: str | None = None  # why two runs are no pair

    @property
    def names(self) -> str:
        return ", ".join(run.name for run in self.runs)

    @property
    def failing(self) -> list[tuple[str, CheckFinding]]:
        """Failures, each with the run or the pair that it is of; one of a run is not repeated for
        its pair."""
        names: dict[CheckFinding, str] = {}
        for name, finding in self._named():
            if finding.verdict == "fails":
                names.setdefault(finding, name)
        return [(name, finding) for finding, name in names.items()]

    def _named(self) -> Iterator[tuple[str, CheckFinding]]:
        for run, findings in zip(self.runs, self.findings, strict=True):
            yield from ((run.name, finding) for finding in findings)
        pair_name = " and ".join(run.name for run in self.runs)
        yield from ((pair_name, finding) for finding in self.pair_findings)


def judge_folders(
    folders: Sequence[Path],
    *,
    treatment: Sequence[str] = (),
    explained: Mapping[str, str] | None = None,
) -> JudgedRuns:
    """Judge the runs in some folders; a treatment and explanations are of a pair."""
    if len(folders) != 2 and (treatment or explained):
        raise BadInput(
            f"--treatment and --explain are of two runs that are compared, not of {len(folders)}"
        )
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise BadInput("a run is given twice, and would be compared with itself; name it once")
    runs = distinct([load(folder) for folder in folders])
    findings = tuple(tuple(judge(RunComparison(runs=(run,)))) for run in runs)
    if len(folders) != 2:
        return JudgedRuns(runs=runs, findings=findings)
    pair = compare(runs, treatment=treatment, explained=explained or {})
    try:
        return JudgedRuns(runs=runs, findings=findings, pair=pair, pair_findings=tuple(judge(pair)))
    except BadInput as nothing_in_common:
        return JudgedRuns(runs=runs, findings=findings, pair=pair, untested=str(nothing_in_common))
