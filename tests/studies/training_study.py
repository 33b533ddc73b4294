"""Small training studies, and what is read of them."""

from pathlib import Path

from study_process import StudyProcess

from assay.errors import BadInput
from assay.records.identity import current
from assay.records.schema import CELL_PROGRESS
from assay.train import saved_state

SMALL = {
    "TRAIN_DATASET": "folder", "TRAIN_TOKENIZER": "byte", "TRAIN_LAYERS": 2, "TRAIN_HEADS": 2,
    "TRAIN_WIDTH": 16, "TRAIN_LENGTH": 16, "TRAIN_BATCH": 4, "TRAIN_DROPOUT": "0.1",
    "TRAIN_STEPS": 24, "TRAIN_WARMUP": 2, "TRAIN_LEARNING_RATE": "1e-2", "TRAIN_REPORT_EVERY": 2,
    "TRAIN_EVALUATE_EVERY": 8, "TRAIN_SAVE_EVERY": 4, "TRAIN_WINDOWS": 3, "DEVICE_CPU": "y",
    "TRAIN_SAMPLE_TOKENS": 5,
}  # fmt: skip
LONG = 400  # steps of a run that is killed


def settings(text: Path, **changes) -> dict:
    return {**SMALL, "TRAIN_PLACE": text, "TRAIN_DATA_FOLDER": text.parent / "prepared", **changes}


def state(study: StudyProcess, cell: str) -> saved_state.Position:
    return saved_state.last(study.run_folder.cell("train", cell))


def of(study: StudyProcess, cell: str, metric: str) -> list:
    records = current(study.records("train"))
    return [r for r in records if (r.cell, r.metric) == (cell, metric)]


def batches(study: StudyProcess) -> int:
    """The number of the last batch that is in the log."""
    try:
        progress = [r.value for r in study.records("train") if r.metric == CELL_PROGRESS]
    except BadInput:  # there is no run yet
        return 0
    return int(max(progress, default=0))
