"""Fixed reciprocal attention: some layers exchange the roles of q and k. A null control.

Where q and k are made alike, exchanging them is a new name for the same weights: the model
computes what a standard one with the two weight blocks exchanged computes, so any gain measured
with it comes from elsewhere. It is kept because that makes it a free test of an experiment.
"""

from torch import nn

from assay.models.gpt2.config import ModelConfig, layer_set
from assay.models.gpt2.operands import Operands
from assay.models.gpt2.softmax_attention import AttentionOutput

TAG = "RA"
SLOT = "reciprocal"
OPTIONS = {"ra_layers": {"default": "late", "layers": True}}  # in which roles are exchanged
VARIATIONS = ({"ra_layers": "all"}, {"ra_layers": "alternating"})


def build(config: ModelConfig, layer: int) -> "FixedReciprocal":
    swapped = layer in layer_set(config.ra_layers, config.n_layer, option="ra_layers")
    return FixedReciprocal(swapped=swapped, heads=config.n_head)


class FixedReciprocal(nn.Module):
    def __init__(self, *, swapped: bool, heads: int) -> None:
        super().__init__()
        self.swapped = swapped
        self.reads = {"q": heads} if swapped else {"k": heads}

    def forward(self, operands: Operands, kernel: object) -> AttentionOutput:
        return operands.attend(kernel, *operands.pair(swapped=self.swapped))
