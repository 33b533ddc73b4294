"""AdamWPrune: a base optimizer that prunes by a score of its own state (train/scores.py).

`adamwprune+base=adamwspam+prune=bitter7` is `adamwspam+prune=bitter7` under the name it is known
by; the base has its own defaults.
"""

import torch
from torch import nn

from assay import plugins
from assay.errors import BadInput
from assay.train.settings import TrainSettings

OPTIONS = {"base": "adamw", "prune": "bitter0"}
MOMENTS = True
_BASES = ("adamw", "adamwadv", "adamwspam")


def make(model: nn.Module, settings: TrainSettings, *, base: str) -> torch.optim.Optimizer:
    if base not in _BASES:
        raise BadInput(f"adamwprune with base={base}; wanted one of {', '.join(_BASES)}")
    plugin = plugins.find("optimizers", base)
    return plugins.load(plugin).make(model, settings, **plugin.literals["OPTIONS"])
