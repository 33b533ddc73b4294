"""The plan of a run that trains, as its run.json tells it: arms, seeds, steps and what is due when.

An arm is a model with an optimizer; a cell is an arm with a seed. Nothing that the run names is
loaded, so a number that cannot be read is unknown.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import PurePath

from assay.records.schema import Run
from assay.reports.training_rows import STAGE

DEFAULT_OPTIMIZER = "adamw"  # left out of the names of arms
_DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?(e-?[0-9]{1,2})?")
_MOST_CELLS = 10_000  # a run.json may name more than anybody could train


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Cells in the order in which they are run, as (arm, seed), and the limits of each."""

    cells: tuple[tuple[str, int], ...]
    steps: int | None  # by the limit on steps and the one on tokens
    most_seconds: int | None  # of training; None where there is no such limit
    tokens_per_step: int | None
    evaluate_every: int | None
    save_every: int | None

    @property
    def baseline(self) -> str | None:
        return self.cells[0][0] if self.cells else None

    def next_multiple(self, step: int, every: int | None) -> int | None:
        """The next step after `step` at which something is done that also ends every run."""
        if not every or self.steps is None or step >= self.steps:
            return None
        return min((step // every + 1) * every, self.steps)


def stages_of(run: Run) -> list[str]:
    """The stages that a run was started with, as its configuration lists them."""
    return _entries(run.config, "STAGES")


def trains(run: Run) -> bool:
    return STAGE in stages_of(run)


def plan_of(run: Run, examined: Sequence[str], trained: Iterable[str] = ()) -> TrainingPlan:
    """The plan of a run; `examined` are the models that the stage models has records of, and
    `trained` the arms that the stage train has.

    The first tell which models a group such as `ratio` stands for, once that stage has begun; the
    second how an arm is spelt whose options can be written in several ways.
    """
    config = run.config
    models, optimizers = _models(config, examined), _optimizers(config)
    seeds = [int(seed) for seed in _entries(config, "TRAIN_SEEDS") if _is_number(seed)]
    spelt = {_options(arm): arm for arm in trained}
    arms = ((seed, _arm(m, o)) for seed, m, o in product(seeds, models, optimizers))
    cells = ((spelt.get(_options(arm), arm), seed) for seed, arm in arms)
    sizes = _number(config, "TRAIN_BATCH"), _number(config, "TRAIN_LENGTH")
    tokens = sizes[0] * sizes[1] if sizes[0] and sizes[1] else None
    return TrainingPlan(
        cells=tuple(dict.fromkeys(islice(cells, _MOST_CELLS))),
        steps=_steps(config, tokens),
        most_seconds=_number(config, "TRAIN_MOST_SECONDS") or None,
        tokens_per_step=tokens,
        evaluate_every=_number(config, "TRAIN_EVALUATE_EVERY"),
        save_every=_number(config, "TRAIN_SAVE_EVERY"),
    )


def _models(config: Mapping[str, str], examined: Sequence[str]) -> Iterable[str]:
    """In the order of their list; a list with groups or steps has other names, and their order."""
    listed = _entries(config, "MODELS")
    return listed if not examined or set(listed) == set(examined) else examined


def _optimizers(config: Mapping[str, str]) -> list[str]:
    """Optimizers by the names that records have: a file's without its path, options in order."""
    names = []
    for entry in _entries(config, "TRAIN_OPTIMIZERS") or [DEFAULT_OPTIMIZER]:
        name, *options = entry.split("+")
        names.append("+".join([PurePath(name.removesuffix(".py")).name, *sorted(options)]))
    return names


def _options(arm: str) -> tuple[str | float, ...]:
    """An arm by the values of its options: rate=2 is rate=2.0."""
    words = arm.replace("=", "+").split("+")
    return tuple(float(word) if _DECIMAL.fullmatch(word) else word for word in words)


def _arm(model: str, optimizer: str) -> str:
    return model if optimizer == DEFAULT_OPTIMIZER else f"{model}/{optimizer}"


def _steps(config: Mapping[str, str], tokens_per_step: int | None) -> int | None:
    steps, tokens = _number(config, "TRAIN_STEPS"), _number(config, "TRAIN_MOST_TOKENS")
    if steps is None or not tokens or not tokens_per_step:
        return steps
    return min(steps, -(-tokens // tokens_per_step))


def _entries(config: Mapping[str, str], symbol: str) -> list[str]:
    text = config.get(symbol, "").strip('"')
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _number(config: Mapping[str, str], symbol: str) -> int | None:
    text = config.get(symbol, "")
    return int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
