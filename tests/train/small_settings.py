"""A run that takes a second on a CPU."""

from assay.train.settings import TrainSettings

SETTINGS = TrainSettings(
    model="GPT2", seed=0, dataset="folder", place="", tokenizer="byte", vocabulary=0,
    data_folder="", layers=2, heads=2, width=16, length=16, dropout=0.1, batch=4, micro_batch=2,
    steps=12, most_tokens=0, most_seconds=0, optimizer="adamw", learning_rate=1e-2,
    least_learning_rate=1e-3, warmup=2, weight_decay=0.1, clip=1.0, dtype="float32",
    stream="float32", compiled=False, recompute=False, deterministic=False, report_every=2,
    evaluate_every=4, save_every=4, windows=3, sample_tokens=5, part_metrics=True,
)  # fmt: skip
