"""Names of others for what our symbols and metrics say: the one table by which runs that assay did
not make are read.

A key is taken by its whole name, or by the last part of a nested one. Two keys that stand for one
symbol and contradict each other leave it unsaid.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

from assay.trackers.run import TrackerRun

# Keys that assay's own mirrors add to the symbols of a run.
MIRRORED = ("run", "study", "stage", "cell", "commit", "SCHEMA")

SYMBOLS: dict[str, tuple[str, ...]] = {
    "TRAIN_LEARNING_RATE": ("learning_rate", "lr", "max_lr", "optimizer.lr", "base_lr"),
    "TRAIN_LEAST_LEARNING_RATE": ("min_lr", "min_learning_rate", "lr_min"),
    "TRAIN_WARMUP": ("warmup_iters", "warmup_steps", "num_warmup_steps", "lr_warmup_steps"),
    "TRAIN_STEPS": ("max_iters", "max_steps", "total_steps", "num_steps", "num_iterations"),
    "TRAIN_MOST_TOKENS": ("max_tokens", "token_budget"),
    "TRAIN_MOST_SECONDS": ("max_time", "max_seconds", "time_budget_s"),
    "TRAIN_WEIGHT_DECAY": ("weight_decay", "wd"),
    "TRAIN_CLIP": ("grad_clip", "max_grad_norm", "gradient_clip_val", "clip_grad_norm"),
    "TRAIN_OPTIMIZERS": ("optimizer", "optim", "optimizer.name", "optimizer_name"),
    "TRAIN_DATASET": ("dataset", "dataset_name", "data", "data.name"),
    "TRAIN_TOKENIZER": ("tokenizer", "tokenizer_name"),
    "TRAIN_VOCABULARY": ("vocab_size",),
    "TRAIN_LENGTH": (
        "block_size", "max_seq_length", "seq_len", "seq_length", "sequence_length",
        "context_length", "max_length",
    ),
    "TRAIN_LAYERS": ("n_layer", "num_hidden_layers", "n_layers", "num_layers"),
    "TRAIN_HEADS": ("n_head", "num_attention_heads", "n_heads", "num_heads"),
    "TRAIN_WIDTH": ("n_embd", "hidden_size", "d_model"),
    "TRAIN_DROPOUT": ("dropout", "resid_pdrop"),
    "TRAIN_COMPILED": ("compile", "torch_compile", "compiled"),
    "TRAIN_WINDOWS": ("eval_iters", "eval_windows"),
    "MODELS": ("model", "model_name", "model_name_or_path", "architecture", "model_type"),
}  # fmt: skip
METRICS: dict[str, tuple[str, ...]] = {
    "val_loss": (
        "val/loss", "val_loss", "eval/loss", "eval_loss", "validation/loss", "valid/loss",
        "valid_loss", "validation_loss",
    ),
    "train_loss": ("train/loss", "train_loss", "loss", "training_loss"),
    "learning_rate": ("learning_rate", "lr", "train/learning_rate", "train/lr"),
    "grad_norm": ("grad_norm", "train/grad_norm", "gradient_norm"),
    "tokens_per_s": (
        "tokens_per_s", "tokens_per_sec", "tokens_per_second", "train/tokens_per_s",
        "train/tokens_per_sec", "train/tokens_per_second",
    ),
}  # fmt: skip
SEEDS = ("seed", "random_seed", "train.seed")
# Names, places and how often something is written: no influence on what is computed.
PLACES = (
    "run_name", "name", "output_dir", "out_dir", "logging_dir", "log_dir", "save_dir",
    "report_to", "wandb_project", "wandb_run_name", "wandb_log", "project", "entity", "tags",
    "notes", "log_interval", "logging_steps", "save_steps", "save_strategy", "group",
)  # fmt: skip
_ADAMW = ("adamw_torch", "adamw_torch_fused", "adamw_hf")
_MOST = 1 << 53  # a batch, its parts, devices: beyond it nobody counted


@dataclass(frozen=True, kw_only=True)
class ReadConfig:
    """A configuration under our names, with where each came from."""

    symbols: dict[str, str]  # as ComparedRun reads them: y and n for a yes and a no
    read_as: dict[str, str]  # symbol -> the words that say which keys it is
    rest: dict[str, str]  # keys that no symbol stands for, under their own names
    dtype: str | None = None
    seed: Any = None


def is_mirrored(run: TrackerRun) -> bool:
    """True where assay's own mirror made a run, whose configuration is its symbols."""
    kinds = {"cell": (str, NoneType), "commit": (str, NoneType), "SCHEMA": (int, str)}
    return all(
        name in run.config and isinstance(run.config[name], kinds.get(name, str))
        for name in MIRRORED
    )


def read_config(run: TrackerRun) -> ReadConfig:
    """The configuration of a run that assay did not make."""
    config, symbols, read_as = dict(run.config), {}, {}
    used: set[str] = set()
    for symbol, names in SYMBOLS.items():
        keys = _keys(config, names)
        values = {_word(config[key]) for key in keys} - {None}
        used |= set(keys) if len(values) < 2 else set()
        if len(values) == 1 and (word := _usable(symbol, values.pop(), config)) is not None:
            symbols[symbol], read_as[symbol] = word, " and ".join(keys)
    for symbol, reader in (("TRAIN_BATCH", _batch), ("TRAIN_DTYPE", _dtype)):
        if made := reader(config, run):
            word, keys, words = made
            symbols[symbol], read_as[symbol] = word, words
            used |= set(keys)
    seeds = _keys(config, SEEDS)
    rest = {
        name: word
        for name, value in config.items()
        if name not in used | set(seeds) and name not in PLACES
        if (word := _word(value)) is not None
    }
    seed = config[seeds[0]] if len({str(config[key]) for key in seeds}) == 1 else None
    seed = seed if isinstance(seed, int | NoneType) else str(seed)
    return ReadConfig(
        symbols=symbols, read_as=read_as, rest=rest, dtype=symbols.get("TRAIN_DTYPE"), seed=seed
    )


def _keys(config: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Keys of a configuration that stand for one of some names."""
    return [key for key in config if key in names or ("." in key and key.split(".")[-1] in names)]


def _word(value: Any) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None if value in (None, {}, []) else str(value)
    if isinstance(value, bool):
        return "y" if value else "n"
    return str(value)


def _usable(symbol: str, word: str, config: Mapping[str, Any]) -> str | None:
    """The value as our symbol has it; None where it means something else."""
    if symbol == "TRAIN_OPTIMIZERS":
        return "adamw" if word.lower() in _ADAMW else word.lower()
    if symbol == "TRAIN_STEPS" and word.startswith("-"):  # Hugging Face: by epochs
        return None
    if symbol == "TRAIN_WARMUP" and config.get("warmup_ratio"):  # a share instead of steps
        return None
    return word


def _batch(config: Mapping[str, Any], run: TrackerRun) -> tuple[str, list[str], str] | None:
    """Sequences of a step, over accumulation and devices, with the keys it was made of."""
    factors: list[str]
    if _numbers(config, "global_batch_size"):
        factors = ["global_batch_size"]
    elif _numbers(config, "per_device_train_batch_size", "gradient_accumulation_steps"):
        factors = ["per_device_train_batch_size", "gradient_accumulation_steps"]
    elif _numbers(config, "batch_size"):  # nanoGPT accumulates over all devices together
        more = ("gradient_accumulation_steps", "accumulate_grad_batches")
        factors = ["batch_size", *(name for name in more if _numbers(config, name))]
    else:
        return None
    product = 1
    for name in factors:
        product *= int(config[name])
    words = " × ".join(factors)
    if factors[0].startswith("per_device"):
        devices = config.get("world_size") or run.metadata.gpu_count
        if not _is_count(devices):
            return None
        product, words = product * int(devices), f"{words} × {devices} devices"
    return str(product), factors, words


def _numbers(config: Mapping[str, Any], *names: str) -> bool:
    return all(_is_count(config.get(name)) for name in names)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < _MOST and value == int(value)


def _dtype(config: Mapping[str, Any], run: TrackerRun) -> tuple[str, list[str], str] | None:
    """The dtype of the arithmetic, from a name or from switches."""
    readers: tuple[Callable[[Mapping[str, Any]], tuple[str, list[str]] | None], ...] = (
        _named_dtype, _switched_dtype,
    )  # fmt: skip
    for reader in readers:
        if made := reader(config):
            word, keys = made
            return word, keys, " and ".join(keys)
    return None


def _named_dtype(config: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    words = {
        "bfloat16": "bfloat16", "bf16": "bfloat16", "bf16-mixed": "bfloat16",
        "bf16-true": "bfloat16", "float16": "float16", "fp16": "float16", "16-mixed": "float16",
        "16": "float16", "half": "float16", "float32": "float32", "fp32": "float32",
        "32": "float32", "32-true": "float32", "no": "float32",
    }  # fmt: skip
    for name in ("dtype", "torch_dtype", "precision", "mixed_precision"):
        word = words.get(str(config.get(name, "")).lower().removeprefix("torch."))
        if word:
            return word, [name]
    return None


def _switched_dtype(config: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    on = {name: config.get(name) for name in ("bf16", "fp16")}
    if not any(isinstance(value, bool) for value in on.values()):
        return None
    keys = [name for name, value in on.items() if isinstance(value, bool)]
    if on["bf16"] and on["fp16"]:
        return None
    if on["bf16"] or on["fp16"]:
        return ("bfloat16" if on["bf16"] else "float16"), keys
    return ("float32", keys) if len(keys) == 2 else None
