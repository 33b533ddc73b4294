"""`assay mirror` in a process of its own, with the trackers' files in folders of the test."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from made_records import run_folder
from new_process import environment

from assay.records.run import RunFolder

TIMEOUT_S = 900
MIRRORED_RUN = Path(__file__).parent / "mirrored_run.py"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A run, and where trackers keep what they are sent."""

    run: RunFolder
    trackio: Path

    def environment(self, **changes: str) -> dict[str, str]:
        """Trackers that write to this machine alone, and report to nobody."""
        offline = {
            "WANDB_MODE": "offline",
            "WANDB_ERROR_REPORTING": "false",
            "TRACKIO_DIR": str(self.trackio),
            "HF_HUB_OFFLINE": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
        ours = environment(Path(__file__).parent, **offline | changes)
        for name in ("WANDB_DIR", "ASSAY_TRACKERS", "ASSAY_TRACKER_PROJECT"):
            ours.pop(name, None)
        return ours | changes

    def start(self, *arguments: str, **changes: str) -> subprocess.Popen:
        """`assay mirror RUN ARGUMENTS`; returns at once."""
        return subprocess.Popen(
            [sys.executable, "-m", "assay", "mirror", str(self.run.path), *arguments],
            cwd=self.run.path,
            env=self.environment(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def mirror(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess:
        """The same, to its end."""
        process = self.start(*arguments, **changes)
        output, errors = process.communicate(timeout=TIMEOUT_S)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    @property
    def stop(self) -> Path:
        """The file that lets a started run come to its end."""
        return self.trackio.with_name("stop")

    def start_run(self, batches: int, pause_s: float) -> subprocess.Popen:
        """A process that writes the run, or goes on with it."""
        command = [sys.executable, MIRRORED_RUN, self.run.path, batches, pause_s, self.stop]
        return subprocess.Popen(list(map(str, command)), env=self.environment())


def new_place(folder: Path, **stages: list) -> Place:
    """A run with the given batches in its stages."""
    return Place(run=run_folder(folder / "results", **stages), trackio=folder / "trackio")
