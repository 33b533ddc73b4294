"""The baseline of the family with a learned gain added, of which neutral_() knows nothing."""

import torch
from torch import nn

from assay.models.gpt2.config import GPTConfig
from assay.models.gpt2.variants import GPT2


class GPT2FamilyWithAGain(GPT2):
    def __init__(self, config: GPTConfig):
        super().__init__(config)
        self.scale = nn.Parameter(torch.full((config.n_embd,), 0.9))
        self.ln_f.register_forward_hook(lambda m, a, out: out * self.scale)
