"""Names of others for what our symbols and metrics say: the one table by which runs that assay did
not make are read.

A key is taken by its whole name, or by the end of a nested one. Two keys that stand for one symbol
and contradict each other leave it unsaid. The names are those of nanoGPT (train.py), torchtitan
(config/job_config.py), transformers (TrainingArguments), Lightning (Trainer) and knlp
(gpt2/train.py, and the keys that its checklist of runs asks for).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import NoneType
from typing import Any

from assay.trackers.run import TrackerRun

# Keys that assay's own mirrors add to the symbols of a run.
MIRRORED = ("run", "study", "stage", "cell", "commit", "SCHEMA")

SYMBOLS: dict[str, tuple[str, ...]] = {
    "TRAIN_LEARNING_RATE": ("learning_rate", "lr", "max_lr", "optimizer.lr", "base_lr"),
    "TRAIN_LEAST_LEARNING_RATE": ("min_lr", "min_learning_rate", "lr_min"),
    "TRAIN_WARMUP": ("warmup_iters", "warmup_steps", "num_warmup_steps", "lr_warmup_steps"),
    "TRAIN_STEPS": ("max_iters", "max_steps", "total_steps", "num_steps", "num_iterations",
                    "training.steps"),
    "TRAIN_MOST_TOKENS": ("max_tokens", "token_budget"),
    "TRAIN_MOST_SECONDS": ("max_time", "max_seconds", "time_budget_s"),
    "TRAIN_WEIGHT_DECAY": ("weight_decay", "wd"),
    "TRAIN_CLIP": ("grad_clip", "max_grad_norm", "gradient_clip_val", "clip_grad_norm",
                   "max_norm", "gradient_clip_norm"),
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
    "TRAIN_COMPILED": ("compile", "torch_compile", "compiled", "compile_model", "compile.enable"),
    "TRAIN_WINDOWS": ("eval_iters", "eval_windows", "eval_samples"),
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
SEEDS = ("seed", "random_seed", "seed_everything")
_COMMITS = ("git_commit", "git_sha", "git_hash", "commit_hash", "commit")
# Factors of the sequences of a step: all that a run states of the first line that it states whole,
# times its devices where they are of one device. nanoGPT and knlp accumulate over all together.
_BATCHES = (
    (("global_batch_size",), False),  # torchtitan, where it is not -1
    (("per_device_train_batch_size", "gradient_accumulation_steps"), True),  # transformers
    (("batch_size", "accumulate_grad_batches"), True),  # Lightning
    (("local_batch_size", "data_parallel_replicate_degree", "data_parallel_shard_degree"), False),
    (("batch_size", "gradient_accumulation_steps"), False),  # nanoGPT
    (("batch_size", "gradient_accumulation"), False),  # knlp
)
_DEVICES = (
    ("world_size",), ("devices", "num_nodes"), ("nproc_per_node", "nnodes"), ("devices",),
    ("num_devices",), ("num_gpus",), ("n_gpus",), ("gpus",),
)  # fmt: skip
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
    keys: dict[str, str] = field(default_factory=dict)  # own key -> symbol
    devices: int | None = None
    commit: str | None = None
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
    used: dict[str, str] = {}
    for symbol, names in SYMBOLS.items():
        keys = _keys(config, names)
        words = {_word(config[key]) for key in keys} - {None}
        values = {_usable(symbol, word, config) for word in words}
        if len(values) == 1 and (value := values.pop()) is not None:
            symbols[symbol], read_as[symbol] = value, " and ".join(keys)
            used |= dict.fromkeys(keys, symbol)
    for symbol, reader in (("TRAIN_BATCH", _batch), ("TRAIN_DTYPE", _dtype)):
        if made := reader(config, run):
            symbols[symbol], keys, read_as[symbol] = made
            used |= dict.fromkeys(keys, symbol)
    seeds, commits = _keys(config, SEEDS), _keys(config, _COMMITS)
    devices, counted = _product(config, _DEVICES) or (None, [])
    rest = {
        name: word
        for name, value in config.items()
        if name not in {*used, *seeds, *commits, *counted} and name not in PLACES
        if (word := _word(value)) is not None
    }
    seed = config[seeds[0]] if len({str(config[key]) for key in seeds}) == 1 else None
    seed = seed if isinstance(seed, int | NoneType) else str(seed)
    named = {str(c) for c in (*(config[key] for key in commits), run.metadata.commit) if c}
    named -= {short for short in named if any(c != short and c.startswith(short) for c in named)}
    commit = named.pop() if len(named) == 1 else None
    return ReadConfig(
        symbols=symbols, read_as=read_as, rest=rest, keys=used, devices=devices, commit=commit,
        dtype=symbols.get("TRAIN_DTYPE"), seed=seed,
    )  # fmt: skip


def _keys(config: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Keys of a configuration that stand for one of some names."""
    ends = tuple(f".{name}" for name in names)
    return [key for key in config if key in names or key.endswith(ends)]


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
    if symbol == "TRAIN_COMPILED":
        words = {"y": "y", "true": "y", "1": "y", "n": "n", "false": "n", "0": "n"}
        return words.get(word.lower())
    if symbol == "TRAIN_MOST_SECONDS" and word.count(":") == 3:  # Lightning: days to seconds
        parts = [int(part) for part in word.split(":") if part.isdecimal()]
        scaled = zip(parts, (86400, 3600, 60, 1), strict=False)
        return str(sum(n * s for n, s in scaled)) if len(parts) == 4 else None
    if symbol == "TRAIN_STEPS" and word.startswith("-"):  # Hugging Face: by epochs
        return None
    if symbol == "TRAIN_WARMUP" and config.get("warmup_ratio"):  # a share instead of steps
        return None
    return word


def _batch(config: Mapping[str, Any], run: TrackerRun) -> tuple[str, list[str], str] | None:
    """Sequences of a step, over accumulation and devices, with the keys it was made of."""
    stated = [(line, each) for line in _BATCHES if (each := _product(config, line[:1]))]
    if not stated:
        return None
    (factors, of_one_device), (product, keys) = stated[0]
    words = " × ".join(factors)
    if of_one_device:  # a tracker counts the devices of a machine, of which a run may use some
        alone = (1, []) if run.metadata.gpu_count == 1 else None
        devices = _product(config, _DEVICES) or alone
        if devices is None:
            return None
        product, words = product * devices[0], f"{words} × {devices[0]} devices"
    return str(product), keys, words


def _product(
    config: Mapping[str, Any], lines: Sequence[tuple[str, ...]]
) -> tuple[int, list[str]] | None:
    """The product of the first line whose factors are all stated as counts, with their keys."""
    for names in lines:
        keys = [_keys(config, (name,)) for name in names]
        values = [{config[key] for key in own if _is_count(config[key])} for own in keys]
        whole = [len({str(config[key]) for key in own}) == 1 for own in keys]
        if all(whole) and all(values):
            return prod(int(v.pop()) for v in values), [key for own in keys for key in own]
    return None


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
    names = ("dtype", "torch_dtype", "precision", "mixed_precision", "mixed_precision_param")
    for name in _keys(config, names):
        word = words.get(str(config[name]).lower().removeprefix("torch."))
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
