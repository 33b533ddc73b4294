"""The mirrors of a run that goes on: a process for each tracker, which follows the run's folder.

So a tracker that hangs, crashes or is not there cannot harm the run: at its end the mirrors have
`PATIENCE_S` to catch up, all together, and are ended then. Without trackers nothing is started.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay.instruments.start_method import finding_us, own_python
from assay.records import mirroring
from assay.studies.study import Study

PATIENCE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """Where a study's runs are mirrored to."""

    trackers: tuple[str, ...] = ()
    project: str = ""
    entity: str | None = None

    def keys(self, run: str) -> dict[str, str]:
        """Keys of `run.json`: the project, and the group of the tracker's runs in it."""
        return {"tracker_project": self.project, "tracker_run": run} if self.trackers else {}


def tracking_of(study: Study, name: str) -> Tracking:
    """The trackers of a study whose folder of results is `name`; the environment goes before."""
    named = os.environ.get("ASSAY_TRACKERS")
    trackers = study.trackers if named is None else mirroring.chosen(named)
    if not trackers:
        return Tracking()
    project = os.environ.get("ASSAY_TRACKER_PROJECT") or study.tracker_project or name
    return Tracking(
        trackers=trackers,
        project=mirroring.project_name(project),
        entity=os.environ.get("WANDB_ENTITY") or study.tracker_entity or None,
    )


@contextmanager
def mirrored(folder: Path, tracking: Tracking, note: Callable[[str], None]) -> Iterator[None]:
    """Mirror the run in `folder`, from within the time that it is held until it is no more."""
    processes = {}
    for tracker in tracking.trackers:
        if hint := mirroring.missing(tracker):
            note(f"not mirrored to {tracker}: {hint}, then: {_later(folder, tracker)}")
        else:
            processes[tracker] = _start(folder, tracker, tracking)
            note(f"mirrored to {tracker}, project {tracking.project}")
    try:
        yield
    finally:
        _end(folder, processes, note)


def _start(folder: Path, tracker: str, tracking: Tracking) -> subprocess.Popen[bytes]:
    command = own_python("assay", "mirror", str(folder), "--follow", "--to", tracker)
    command += ["--project", tracking.project]
    if tracking.entity:
        command += ["--entity", tracking.entity]
    with open(_output(folder, tracker), "wb") as output:
        return subprocess.Popen(
            command,
            env=finding_us(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # an interrupt of the study is none of the mirror's
        )


def _end(
    folder: Path, processes: Mapping[str, subprocess.Popen[bytes]], note: Callable[[str], None]
) -> None:
    """Wait for the mirrors; say of each that did not come to its end what is to be done."""
    deadline = time.monotonic() + PATIENCE_S
    for tracker, process in processes.items():
        try:
            code = process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            reason = f"it had not caught up {PATIENCE_S:g} s after the run's end"
        else:
            if code == 0:
                continue
            reason = _last_words(_output(folder, tracker)) or f"it ended with exit code {code}"
        note(f"the mirror to {tracker} is not complete: {reason}; {_later(folder, tracker)}")


def _later(folder: Path, tracker: str) -> str:
    return f"assay mirror {folder} --to {tracker}"


def _output(folder: Path, tracker: str) -> Path:
    return folder / f"mirror-{tracker}.log"


def _last_words(file: Path) -> str:
    """The last line that a mirror wrote, or the reason that it gave before it."""
    lines = file.read_text(errors="replace").strip().splitlines()
    reasons = [line.removeprefix("assay: ") for line in lines if line.startswith("assay: ")]
    return (reasons or lines or [""])[-1]
