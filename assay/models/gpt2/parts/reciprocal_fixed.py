"""Fixed reciprocal attention: some layers exchange the roles of q and k. A null control.

Where q and k are made alike, exchanging them is a new name for the same weights: the model
computes what a standard one with the two weight blocks exchanged computes, so any gain measured
with it comes from elsewhere. It is kept because that makes it a free test of an experiment: of a
seed's noise as it is, and of the trainer with ra_start=swapped, which exchanges the initial weights
as well, for then it must follow GPT-2 step by step.
"""

from torch import nn

from assay.models.gpt2.config import ModelConfig, layer_set
from assay.models.gpt2.operands import Operands
from assay.models.gpt2.softmax_attention import AttentionOutput

TAG = "RA"
SLOT = "reciprocal"
OPTIONS = {
    "ra_layers": {"default": "late", "layers": True},  # in which roles are exchanged
    "ra_start": {"default": "own", "choices": ("own", "swapped")},
}
VARIATIONS = ({"ra_layers": "all"}, {"ra_layers": "alternating"})


def build(config: ModelConfig, layer: int) -> "FixedReciprocal":
    swapped = layer in layer_set(config.ra_layers, config.n_layer, option="ra_layers")
    starts_swapped = swapped and config.ra_start == "swapped"
    return FixedReciprocal(swapped=swapped, starts_swapped=starts_swapped, heads=config.n_head)


class FixedReciprocal(nn.Module):
    def __init__(self, *, swapped: bool, starts_swapped: bool, heads: int) -> None:
        super().__init__()
        self.swapped, self.starts_swapped = swapped, starts_swapped
        self.reads = {"q": heads} if swapped else {"k": heads}

    def forward(self, operands: Operands, kernel: object) -> AttentionOutput:
        return operands.attend(kernel, *operands.pair(swapped=self.swapped))
