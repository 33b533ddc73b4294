"""One real step of a study, told line by line, with the log and the command that repeats it."""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import CANNOT_RUN_HERE, DOES_NOT_HOLD, HOLDS

if TYPE_CHECKING:
    from assay.studies.study import Study

FOLDER = "one-step"  # in the folder of a study's runs; it holds logs and no records


@dataclass(frozen=True, kw_only=True)
class ChosenStudy:
    """The flags by which a study was chosen."""

    config: Path | None
    sets: Sequence[str]
    plugins: Sequence[Path]
    out: Path

    def command(self, settings: Mapping[str, str]) -> str:
        """The command line of one step with other settings for some symbols."""
        started_as_module = Path(sys.argv[0]).name == "__main__.py"
        words = [sys.executable, "-m", "assay"] if started_as_module else ["assay"]
        words += ["study", "run", "--one-step", f"--out={self.out}"]
        words += [f"--config={self.config}"] if self.config else []
        words += [f"--plugins={folder}" for folder in self.plugins]
        entries = {entry.partition("=")[0]: entry for entry in self.sets}
        entries |= {symbol: f"{symbol}={value}" for symbol, value in settings.items()}
        return shlex.join([*words, *(f"--set={entry}" for entry in entries.values())])


def one_step(study: "Study", chosen: ChosenStudy, *, as_json: bool) -> int:
    """Take the study through one step, tell of each subject and return the exit code."""
    from assay import host
    from assay.records.durable import make_folder
    from assay.studies import one_step as steps

    folder = chosen.out / study.study / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    results = []
    for result in steps.run(study, host.inspect(), folder):
        results.append(result)
        repeat = chosen.command(result.settings) if result.is_wrong else ""
        if as_json:
            named = {"stage": result.stage, "subject": result.subject, "workload": result.workload}
            outcome = {"status": result.status, "reason": result.reason, "repeat": repeat}
            print(json.dumps(named | outcome), flush=True)
            continue
        place = f" on {result.workload}" if result.workload else ""
        why = f": {result.reason}" if result.reason else ""
        print(f"{result.status:<11} {result.subject}{place}{why}", flush=True)
        if repeat:
            print(f"{'':<11} again: {repeat}", flush=True)
    shutil.rmtree(folder / "captures", ignore_errors=True)
    wrong = sum(result.is_wrong for result in results)
    passed = sum(result.status == "ok" for result in results)
    ran = {result.stage for result in results if result.status == "ok" or result.is_wrong}
    idle = dict.fromkeys(result.stage for result in results if result.stage not in ran)
    if not as_json:
        unable = len(results) - wrong - passed
        counts = f"{passed} ok, {wrong} failed, {unable} cannot run here"
        word, end = ("INCOMPLETE  ", f"; skipped: {', '.join(idle)}") if idle else ("", "")
        print(f"{word}one step of {study.study}: {counts}{end}")
        if wrong:
            print(f"stacks: {folder / steps.LOG}")
    if wrong:
        return DOES_NOT_HOLD
    return CANNOT_RUN_HERE if idle else HOLDS
