"""The code of each run is a commit that is known here, with nothing changed in it.

Where a remote is given, it must be there too.
"""

import os
import re
import subprocess

from assay import commit_files
from assay.commit_files import CopyState
from assay.installation import CHECKOUT, is_repository
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, not_tested

_ANSWER_S = 60


def look(comparison: RunComparison) -> list[CheckFinding]:
    findings = [_of(run) for run in comparison.runs]
    if comparison.remote:
        findings += [_public(run, comparison.remote) for run in comparison.runs]
    return findings


def _public(run: ComparedRun, remote: str) -> CheckFinding:
    """Look for the commit among those that the branches and tags of a remote lead to."""
    commit = run.run.commit or ""
    listed = _git("ls-remote", "--", remote)
    if listed is None or listed.returncode:
        return fails(f"{run.name}: {remote} cannot be asked for its branches; is it right?")
    tips = {line.split()[0] for line in listed.stdout.splitlines() if line}
    leading = [tip for tip in tips if _succeeds("merge-base", "--is-ancestor", commit, tip)]
    if leading:
        return holds(f"{run.name}: commit {commit[:7]} is in {remote}")
    unknown = sum(not _succeeds("cat-file", "-e", tip) for tip in tips)
    if unknown:
        return not_tested(
            f"{run.name}: {unknown} of the {len(tips)} branches and tags of {remote} are not "
            "known here; git fetch it first"
        )
    return fails(f"{run.name}: commit {commit[:7]} is in none of the branches and tags of {remote}")


def _of(run: ComparedRun) -> CheckFinding:
    commit, name = run.run.commit, run.name
    if run.origin and not run.origin.mirrored:
        words = f"commit {commit[:7]} of code that is not assay's" if commit else "no commit"
        return not_tested(f"{name}: {words}; a tracker does not say whether files differed from it")
    states = [(run.run.commit, run.run.dirty), *((s.commit, s.dirty) for s in run.sessions)]
    if len({state for state, _ in states}) > 1:
        return fails(f"{name} has sessions of more than one commit")
    if commit is None and "assay" in (run.run.versions or {}):
        return _of_wheel(run)
    if commit is None:
        return fails(f"{name} says no commit, so nobody can run its code again")
    if any(dirty is None for _, dirty in states):
        return fails(f"{name} does not say whether files differed from commit {commit[:7]}")
    if any(dirty for _, dirty in states):
        return fails(f"{name} ran with files that differ from commit {commit[:7]}")
    if not re.fullmatch("[0-9a-f]{40}", commit):
        return fails(f"{name} names {commit!r} where a whole commit's hash belongs")
    if _succeeds("cat-file", "-e", f"{commit}^{{commit}}"):
        return holds(f"{name}: commit {commit[:7]}, clean")
    copied = commit_files.read(CHECKOUT)
    of_copy = isinstance(copied, CopyState) and copied.commit == commit
    if of_copy or not _has_history():
        return not_tested(f"{name}: commit {commit[:7]}, clean; this copy of assay has no history")
    return fails(f"{name}: commit {commit[:7]} is not in this checkout's history")


def _of_wheel(run: ComparedRun) -> CheckFinding:
    wheels = {session.host.get("versions", {}).get("assay") for session in run.sessions}
    states = {run.run.dirty, *(session.dirty for session in run.sessions)}
    if len(wheels) > 1:
        return fails(f"{run.name} has sessions of more than one wheel")
    if states != {False}:
        return fails(f"{run.name} ran with files that differ, or may, from those of its wheel")
    return not_tested(f"{run.name}: {run.run.reasons.get('commit')}")


def _has_history() -> bool:
    """True in a checkout that was not cut short when it was cloned."""
    if not is_repository():
        return False
    shallow = _git("rev-parse", "--is-shallow-repository")
    return shallow is not None and shallow.stdout.strip() == "false"


def _succeeds(*arguments: str) -> bool:
    done = _git(*arguments)
    return done is not None and done.returncode == 0


def _git(*arguments: str) -> "subprocess.CompletedProcess[str] | None":
    """The result of a git command here; None where there is no git or no answer."""
    command = ["git", "-C", str(CHECKOUT), *arguments]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_S, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
