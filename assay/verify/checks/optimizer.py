"""Weights are moved by the same rule with the same settings."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, same_symbols


def look(comparison: RunComparison) -> list[CheckFinding]:
    rules = ("TRAIN_OPTIMIZER", "TRAIN_OPTIMIZERS")
    return same_symbols(comparison, *rules, "TRAIN_WEIGHT_DECAY", "TRAIN_CLIP")
