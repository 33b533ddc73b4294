"""PyTorch's own encoder layers under a causal mask.

All layers are copies of one, so they start with equal weights; without gradients evaluation
takes a fused path that rounds otherwise.
"""

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import GPTConfig


class GPT2TorchEncoderLayers(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            d_model=config.n_embd,
            nhead=config.n_head,
            dim_feedforward=config.mlp_width or 4 * config.n_embd,
            dropout=config.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.tokens = nn.Embedding(config.vocab_size, config.n_embd)
        self.positions = nn.Embedding(config.block_size, config.n_embd)
        self.encoder = nn.TransformerEncoder(
            layer,
            num_layers=config.n_layer,
            norm=nn.LayerNorm(config.n_embd),
            enable_nested_tensor=False,
        )
        self.readout = nn.Linear(config.n_embd, config.vocab_size)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def hidden(self, idx):
        length = idx.shape[1]
        x = self.tokens(idx) + self.positions.weight[:length]
        future = torch.ones(length, length, dtype=torch.bool, device=idx.device).triu(1)
        return self.encoder(x, mask=future, is_causal=True)

    def loss(self, logits, targets):
        if targets is None:
            return None
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)

    def forward(self, idx, targets=None):
        logits = self.readout(self.hidden(idx))
        return logits, self.loss(logits, targets)
