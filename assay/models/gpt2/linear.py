"""Linear maps with GPT-2's start: normal with deviation 0.02, biases 0, residual ones smaller.

Every map is started where it is made and never again, so that a part's own start survives.
"""

from math import sqrt

from torch import nn

from assay.models.gpt2.config import ModelConfig

DEVIATION = 0.02


def linear(
    config: ModelConfig,
    wide_in: int,
    wide_out: int,
    *,
    bias: bool | None = None,
    residual: bool = False,
) -> nn.Linear:
    """A map with the configuration's bias switch, unless `bias` says otherwise. A `residual` one,
    whose output is added to the stream, starts smaller by the root of the number of additions."""
    module = nn.Linear(wide_in, wide_out, bias=config.bias if bias is None else bias)
    nn.init.normal_(module.weight, std=DEVIATION / (sqrt(2 * config.n_layer) if residual else 1))
    if module.bias is not None:
        nn.init.zeros_(module.bias)
    return module


def embedding(count: int, width: int) -> nn.Embedding:
    module = nn.Embedding(count, width)
    nn.init.normal_(module.weight, std=DEVIATION)
    return module
