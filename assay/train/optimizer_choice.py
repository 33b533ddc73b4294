"""An optimizer and its options as text, `adamwspam+theta=50+prune=magnitude`. Needs no torch.

Every optimizer has the options of its file (OPTIONS) and those of SHARED.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from assay import plugins
from assay.errors import BadInput
from assay.train import entries
from assay.train.pruning_plan import NO_PRUNING, SCORES, STATE_SCORES, PruningPlan

KIND = "optimizers"
SHARED: Mapping[str, Any] = {
    "rate": 1.0,  # times TRAIN_LEARNING_RATE
    "prune": NO_PRUNING,  # or a score of train/scores.py
    "sparsity": 0.5,  # of the linear maps of the blocks, all together
    "prune_from": 0.1,  # shares of TRAIN_STEPS: the first weights go, the last ones
    "prune_until": 0.6,
    "prune_every": 50,  # steps
}
_OF_PRUNING = ("sparsity", "prune_from", "prune_until", "prune_every")
DEFAULT = "adamw"


@dataclass(frozen=True, kw_only=True)
class OptimizerChoice:
    """An optimizer's file, and the options that an entry gives."""

    plugin: plugins.Plugin
    given: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The entry again, its options in order: two that mean the same have one name."""
        return entries.written(self.plugin, self.given)

    @property
    def own_options(self) -> dict[str, Any]:
        """Options for the `make` of its file."""
        own = {**self.plugin.literals["OPTIONS"], **self.given}
        return {name: value for name, value in own.items() if name not in SHARED}

    @property
    def rate(self) -> float:
        return self._all["rate"]

    def pruning(self, steps: int, of_model: float = 0.0) -> PruningPlan | None:
        """The plan of pruning within so many steps; `of_model` is the sparsity that the model
        names, by magnitude where the entry has no score."""
        options = self._all
        if of_model and "sparsity" in self.given and self.given["sparsity"] != of_model:
            raise BadInput(
                f"{self.name} prunes to {self.given['sparsity']}, and the model names "
                f"{of_model}; leave one of them out"
            )
        score = options["prune"]
        if score == NO_PRUNING and not of_model:
            if unused := [name for name in _OF_PRUNING if name in self.given]:
                raise BadInput(
                    f"{self.name} sets {', '.join(unused)} and prunes nothing; add a score, such "
                    "as prune=magnitude, or leave it out"
                )
            return None
        score = "magnitude" if score == NO_PRUNING else score
        self._require_fit(score)
        return PruningPlan.of_shares(
            score=score,
            sparsity=of_model or options["sparsity"],
            steps=steps,
            shares=(options["prune_from"], options["prune_until"]),
            every=options["prune_every"],
        )

    @property
    def _all(self) -> dict[str, Any]:
        return {**SHARED, **self.plugin.literals["OPTIONS"], **self.given}

    def _require_fit(self, score: str) -> None:
        if not self.plugin.literals["SPARSE"]:
            raise BadInput(
                f"{self.plugin.name} moves weights that have no gradient, so pruned ones would "
                "come back; prune with adamw, adamwadv, adamwspam or sinkgd"
            )
        if score in STATE_SCORES and not self.plugin.literals["MOMENTS"]:
            raise BadInput(
                f"{score} is a score of Adam's moments, which {self.plugin.name} does not have; "
                "wanted magnitude or movement, or adamw, adamwadv or adamwspam; a file of yours "
                "that keeps exp_avg and exp_avg_sq says so with MOMENTS = True"
            )


def chosen(entry: str, folders: Sequence[Path] = ()) -> OptimizerChoice:
    """The choice that an entry names; BadInput where its file or an option is unknown."""
    plugin, given = entries.read(KIND, entry, SHARED, folders)
    choice = OptimizerChoice(plugin=plugin, given=given)
    if not (isfinite(choice.rate) and choice.rate > 0):
        raise BadInput(f"rate={choice.rate} in {entry!r} is no number above 0; give such as 0.5")
    if (score := choice._all["prune"]) not in (NO_PRUNING, *SCORES):
        raise BadInput(
            f"prune={score} in {entry!r} is no score; wanted {NO_PRUNING} or one of "
            f"{', '.join(SCORES)}"
        )
    return choice
