"""A study with torch under kill -9: cells of bench and models, and a training that streams.

Shared by the test of it and by the campaign.
"""

import time
from collections import Counter
from itertools import zip_longest
from typing import Any

from killed_walk import KilledWalk, children
from study_process import StudyProcess
from training_study import SMALL, state

from assay.records.identity import current
from assay.records.run import RunFolder
from assay.records.schema import CELL_PROGRESS, CELL_SECONDS, MACHINE_LOAD, Record

STAGES = ("bench", "models", "train")
LOSSES = ("train_loss", "val_loss", "final_val_loss")
MOMENT_S = 4.0  # about half of a start with its first cell
SETTINGS = {
    **SMALL, "MODELS": "GPT2", "TRAIN_SEEDS": "0,1", "TRAIN_STEPS": 60, "LENGTHS": "16,24",
    "IMPLEMENTATIONS": "eager,sdpa", "PROBES": "accuracy,latency", "BATCHES": 1, "HEADS": "2/2",
    "HEAD_DIMS": 16, "DTYPES": "float32", "MASKS": "causal",
}  # fmt: skip


class KilledTraining(KilledWalk):
    """One run of three stages with torch under kills."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.finished: dict[tuple[str, str], list[int]] = {}  # places of an ended cell's records

    def arguments(self) -> list[str]:
        return arguments(self.study)

    def progress(self) -> int:
        return sum(len(records) for records in self.records().values())

    def workers(self) -> list[int]:
        pids = [pid for server in children(self.process.pid) for pid in children(server)]
        return self.alive(pids)

    def wait(self) -> None:
        if self.moments.random() < 0.5:  # else soon after some records
            time.sleep(self.moments.random() * MOMENT_S)
        else:
            super().wait()

    def records(self) -> dict[str, list[Record]]:
        return records_of(self.study) if self.has_run() else {}

    def shown(self) -> dict[str, int]:
        """Batches of each cell that is training, each whole; what had ended is as it was."""
        counts: Counter[str] = Counter()
        for stage, records in self.records().items():
            last = {record.cell: record for record in current(records)}
            whole = (CELL_SECONDS, CELL_PROGRESS) if stage == "train" else (CELL_SECONDS,)
            assert all(record.metric in whole for record in last.values()), f"half shown: {last}"
            for cell, end in last.items():
                self._check_end(stage, end, [r.sequence for r in records if r.cell == cell])
            counts.update(r.cell for r in current(records) if r.metric == CELL_PROGRESS)
        return dict(counts)

    def _check_end(self, stage: str, end: Record, places: list[int]) -> None:
        if end.metric == CELL_SECONDS and end.status == "ok":
            before = self.finished.setdefault((stage, end.cell), places)
            assert before == places, f"finished and yet run again: {end.cell}, {before}, {places}"

    def is_finished(self) -> bool:
        return self.has_run() and self.exit_code == 0

    def check(self, undisturbed: list) -> None:
        for records in self.records().values():
            assert [r.sequence for r in records] == list(range(1, len(records) + 1))
            ends = Counter(r.cell for r in records if r.metric == CELL_SECONDS and r.status == "ok")
            assert set(ends.values()) == {1}, f"ended twice: {ends}"
        for kind, now, before in zip(CONTENT, content(self.study), undisturbed, strict=True):
            differing = [pair for pair in zip_longest(now, before) if pair[0] != pair[1]]
            assert not differing, f"{kind}, now and undisturbed: {differing[:3]}"


def arguments(study: StudyProcess) -> list[str]:
    """Arguments of a new run, on a text and with prepared data beside its results."""
    text = study.folder / "text"
    text.mkdir(exist_ok=True)
    for number in range(30):
        (text / f"{number}.txt").write_text(
            f"a head reads keys and values of its own {number} " * 9
        )
    places = {"TRAIN_PLACE": text, "TRAIN_DATA_FOLDER": study.folder / "prepared"}
    return study.run_arguments(*STAGES, **SETTINGS, **places)


def records_of(study: StudyProcess) -> dict[str, list[Record]]:
    """Records of the stages that have begun."""
    folder: RunFolder = study.run_folder
    return {stage: study.records(stage) for stage in STAGES if folder.log(stage).exists()}


CONTENT = ("losses", "what was measured", "weights")


def content(study: StudyProcess) -> list:
    """What must be the same whatever happens on the way: losses to the bit, and which subjects
    were measured by which metrics."""
    records = [record for each in records_of(study).values() for record in current(each)]
    losses = sorted(  # a cell whose worker was killed ends after those behind it
        (r.cell, r.metric, r.data["step"], r.value) for r in records if r.metric in LOSSES
    )
    measured = sorted(
        (r.stage, r.cell, r.subject, r.metric, r.status)
        for r in records
        if r.stage != "train" and r.metric != MACHINE_LOAD  # said of a busy machine alone
    )
    digests = [state(study, f"GPT2/s{seed}").weights_digest for seed in (0, 1)]
    return [losses, measured, digests]
