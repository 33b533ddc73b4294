"""The code of each run is a commit that is known here, with nothing changed in it."""

import re
import subprocess

from assay.host import CHECKOUT
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, not_tested


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs]


def _of(run: ComparedRun) -> CheckFinding:
    commit, name = run.run.commit, run.name
    if run.origin and not run.origin.mirrored:
        words = f"commit {commit[:7]} of code that is not assay's" if commit else "no commit"
        return not_tested(f"{name}: {words}; a tracker does not say whether files differed from it")
    states = [(run.run.commit, run.run.dirty), *((s.commit, s.dirty) for s in run.sessions)]
    if len({state for state, _ in states}) > 1:
        return fails(f"{name} has sessions of more than one commit")
    if commit is None:
        return fails(f"{name} says no commit, so nobody can run its code again")
    if any(dirty is None for _, dirty in states):
        return fails(f"{name} does not say whether files differed from commit {commit[:7]}")
    if any(dirty for _, dirty in states):
        return fails(f"{name} ran with files that differ from commit {commit[:7]}")
    if not re.fullmatch("[0-9a-f]{40}", commit):
        return fails(f"{name} names {commit!r} where a whole commit's hash belongs")
    known = _git("cat-file", "-e", f"{commit}^{{commit}}")
    if known == 0:
        return holds(f"{name}: commit {commit[:7]}, clean")
    if known is None or _git("rev-parse", "--git-dir") != 0:
        return not_tested(f"{name}: commit {commit[:7]}, clean; this copy of assay has no history")
    return fails(f"{name}: commit {commit[:7]} is not in this checkout's history")


def _git(*arguments: str) -> int | None:
    command = ["git", "-C", str(CHECKOUT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:
        return None
