"""A study's settings as typed values: what every stage and cell reads.

The names are Kconfig's symbols in lower case. Defaults are Kconfig's too: there are none here. A
field that names plugins says of which kind in its metadata, `{"kind": "probes"}`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from assay import plugins
from assay.errors import BadInput
from assay.models import layer
from assay.performance.rounds import RoundSettings
from assay.records import mirroring
from assay.studies import lists
from assay.studies.config_file import Assignment, as_typed, unquote
from assay.studies.plugin_values import files_in, value
from assay.subjects.decode import names as decode_names
from assay.train import processes
from assay.workloads.spec import DTYPES, MASKS

DEVICES = ("auto", "cpu", "cuda")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def folder_name(text: str) -> str:
    """`text`, where it can name a folder of results."""
    if not NAME.fullmatch(text):
        raise BadInput(
            f"{text!r} cannot name a folder of results; wanted letters, digits, dot, dash and "
            "underscore, a letter or digit first"
        )
    return text


def _folder(text: str) -> str:
    if not text:
        raise BadInput("the folder is empty; wanted a path such as results")
    return text


def _share(text: str) -> float | None:
    """A number from 0 to 1; None where the text is empty."""
    try:
        share = float(text) if text else None
    except ValueError:
        share = -1.0
    if share is not None and not 0 <= share <= 1:
        raise BadInput(f"{text!r} is not a share from 0 to 1, such as 0.25")
    return share


def _read(reader: Callable[[str], Any]) -> Any:
    """A field whose value `reader` makes from the symbol's text."""
    return field(metadata={"read": reader})


def _plugins(kind: str, *, many: bool = True, empty: bool = False) -> Any:
    """A field that names plugins of a kind: a list of them, which may be `empty`, or one."""
    return field(metadata={"kind": kind, "many": many, "empty": empty})


@dataclass(frozen=True, kw_only=True)
class Study:
    """One field per symbol of Kconfig, with the choice of a device as one word.

    `config` has every symbol in Kconfig's order with its value as a .config writes it (`y`, `20`,
    `"eager,sdpa"`, quotes included); `"all"` is expanded in the fields only.
    """

    study: str = _read(folder_name)
    results: str = _read(_folder)  # a folder
    seed: int = _read(int)
    stages: tuple[str, ...] = _plugins("stages")
    implementations: tuple[str, ...] = _plugins("sequence")
    probes: tuple[str, ...] = _plugins("probes")
    layers: tuple[str, ...] = field(metadata={"kind": layer.KIND, "cores": True})
    decoders: tuple[str, ...] = field(metadata={"kind": decode_names.KIND, "layouts": True})
    models: tuple[str, ...] = field(metadata={"models": True})  # a file's entry has its whole path
    models_latent_width: int = _read(int)  # 0: each model's own
    models_splice_ratio: float | None = _read(_share)  # None: each model's own
    train_seeds: tuple[int, ...] = _read(lists.seeds)
    train_dataset: str = _plugins("datasets", many=False)
    train_place: str = _read(str)
    train_tokenizer: str = _plugins("tokenizers", many=False)
    train_vocabulary: int = _read(int)
    train_data_folder: str = _read(_folder)
    train_layers: int = _read(int)
    train_heads: int = _read(int)
    train_width: int = _read(int)
    train_length: int = _read(int)
    train_dropout: float = _read(lists.number)
    train_batch: int = _read(int)
    train_micro_batch: int = _read(int)
    train_parallel: str = _read(partial(lists.word, allowed=processes.KINDS))
    train_processes: int = _read(int)
    train_steps: int = _read(int)
    train_most_tokens: int = _read(int)
    train_most_seconds: int = _read(int)
    train_optimizers: tuple[str, ...] = field(metadata={"kind": "optimizers", "options": True})
    train_evals: tuple[str, ...] = field(metadata={"kind": "evals", "options": True})
    eval_models: tuple[str, ...] = _read(lists.entries)
    eval_dtype: str = _read(partial(lists.word, allowed=("float32", "float16", "bfloat16")))
    train_learning_rate: float = _read(lists.number)
    train_least_learning_rate: float = _read(lists.number)
    train_warmup: int = _read(int)
    train_weight_decay: float = _read(lists.number)
    train_clip: float = _read(lists.number)
    train_dtype: str = _read(partial(lists.word, allowed=("float32", "bfloat16")))
    train_stream: str = _read(partial(lists.word, allowed=("float32", "bfloat16")))
    train_compiled: bool = _read(lambda text: text == "y")
    train_recompute: bool = _read(lambda text: text == "y")
    train_deterministic: bool = _read(lambda text: text == "y")
    train_report_every: int = _read(int)
    train_evaluate_every: int = _read(int)
    train_save_every: int = _read(int)
    train_windows: int = _read(int)
    train_sample_tokens: int = _read(int)
    train_part_metrics: bool = _read(lambda text: text == "y")
    workloads: tuple[str, ...] = _read(lists.entries)
    batches: tuple[int, ...] = _read(lists.sizes)
    # Query heads, kv heads, and the head dimension where an entry has its own.
    heads: tuple[tuple[int, int, int | None], ...] = _read(lists.heads)
    lengths: tuple[tuple[int, int], ...] = _read(lists.lengths)  # queries, keys
    head_dims: tuple[int, ...] = _read(lists.sizes)
    dtypes: tuple[str, ...] = _read(partial(lists.words, allowed=DTYPES))
    masks: tuple[str, ...] = _read(partial(lists.words, allowed=MASKS))
    device: str  # one of DEVICES
    device_index: int = _read(int)
    capture: bool = _read(lambda text: text == "y")
    capture_model: str = _read(str)
    capture_to: str = _read(str)  # a folder
    capture_text: str = _read(str)
    capture_tokens: int = _read(int)
    capture_decode: int = _read(int)
    capture_layers: str = _read(str)
    capture_dtype: str = _read(partial(lists.word, allowed=DTYPES))
    cache_model: str = _read(str)
    cache_layouts: tuple[str, ...] = _plugins("layouts")
    cache_residual: int = _read(int)
    cache_text: str = _read(str)
    cache_tokens: int = _read(int)
    cache_window: int = _read(int)
    cache_needles: int = _read(int)
    cache_decode: int = _read(int)
    cache_dtype: str = _read(partial(lists.word, allowed=DTYPES))
    suite_cases: int = _read(int)
    suite_budget_s: int = _read(int)
    suite_quick: bool = _read(lambda text: text == "y")
    isolated_judge: bool = _read(lambda text: text == "y")
    rounds: int = _read(int)
    rounds_budget_s: int = _read(int)
    warmup: int = _read(int)
    noise_comparisons: int = _read(int)
    noise_processes: int = _read(int)
    noise_planted_percent: int = _read(int)
    cell_timeout_s: int = _read(int)
    case_timeout_s: int = _read(int)
    cell_memory_percent: int = _read(int)
    search_oom: tuple[str, ...] = _plugins("sequence", empty=True)
    engine: str = _plugins("engines", many=False)
    trackers: tuple[str, ...] = _read(mirroring.chosen)
    tracker_project: str = _read(str)
    tracker_entity: str = _read(str)
    plugin_folders: tuple[Path, ...]
    config: dict[str, str]

    @property
    def round_settings(self) -> RoundSettings:
        return RoundSettings(rounds=self.rounds, warmup=self.warmup, budget_s=self.rounds_budget_s)


def build(
    config: Mapping[str, str],
    *,
    plugin_folders: Sequence[Path] = (),
    given: Mapping[str, Assignment] | None = None,
) -> Study:
    """The study of a resolved configuration (every symbol, values as a .config writes them).

    `given` has, for each symbol that was given a value, by what: messages begin with that.
    """
    folders = plugins.check_folders(plugin_folders)
    values = {}
    for item in fields(Study):
        if not item.metadata:
            continue
        symbol = item.name.upper()
        try:
            values[item.name] = value(unquote(config[symbol]), item.metadata, folders)
            folders += files_in(unquote(config[symbol]), item.metadata)
        except BadInput as error:
            prefix = f"Kconfig: {symbol}={config[symbol]}"
            if given and symbol in given:
                prefix = _blamed(given[symbol], item.metadata, folders)
            raise BadInput(f"{prefix}: {error}") from error
    chosen = [name for name in DEVICES if config[f"DEVICE_{name.upper()}"] == "y"]
    if len(chosen) != 1:
        raise BadInput(f"the study names {len(chosen)} devices; set one of DEVICE_* to y")
    return Study(**values, device=chosen[0], plugin_folders=folders, config=dict(config))


def _blamed(given: Assignment, metadata: Mapping[str, Any], folders: Sequence[Path]) -> str:
    """The beginning of a message about a value: of several flags it names the first that is wrong
    by itself."""
    for flag, text in given.typed:
        try:
            value(text, metadata, folders)
        except BadInput:
            return as_typed(((flag, text),))
    return given.prefix
