"""Arms are trained on the same text, prepared in the same way, in sequences of the same length."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, same_data, same_symbols


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [
        *same_data(comparison, "dataset", "dataset_digest"),
        *same_symbols(comparison, "TRAIN_TOKENIZER", "TRAIN_VOCABULARY", "TRAIN_LENGTH"),
    ]
