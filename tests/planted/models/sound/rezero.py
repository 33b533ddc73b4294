"""Layers that start as nothing: each branch is multiplied by a learned scalar that begins at 0.

In the first step all weights inside the branches have a gradient of exactly zero.
"""

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import GPTConfig


class ParallelLayer(nn.Module):
    """x + a attention(norm x) + m mlp(norm x); both factors are learned, one for each layer."""

    def __init__(self, config):
        super().__init__()
        E, self.H = config.n_embd, config.n_head
        self.norm = nn.LayerNorm(E)
        self.all_in = nn.Linear(E, 3 * E + 4 * E, bias=config.bias)
        self.attn_out = nn.Linear(E, E, bias=config.bias)
        self.mlp_out = nn.Linear(4 * E, E, bias=config.bias)
        self.attn_scale = nn.Parameter(torch.tensor(0.0))
        self.mlp_scale = nn.Parameter(torch.tensor(0.0))
        slopes = 2.0 ** (-8.0 * torch.arange(1, self.H + 1) / self.H)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)

    def attention(self, q, k, v):
        T, S = q.size(2), k.size(2)
        i = torch.arange(S - T, S, device=q.device)[:, None]
        distance = i - torch.arange(S, device=q.device)
        bias = -self.slopes * distance
        bias = bias.masked_fill(distance < 0, float("-inf")).to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    def forward(self, x, past):
        B, T, E = x.shape
        q, k, v, hidden = self.all_in(self.norm(x)).split([E, E, E, 4 * E], dim=-1)
        q, k, v = (t.view(B, T, self.H, E // self.H).transpose(1, 2) for t in (q, k, v))
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        y = self.attention(q, k, v).transpose(1, 2).reshape(B, T, E)
        x = x + self.attn_scale * self.attn_out(y) + self.mlp_scale * self.mlp_out(F.gelu(hidden))
        return x, (k, v)


class GPT2Rezero(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.layers = nn.ModuleList([ParallelLayer(config) for _ in range(config.n_layer)])
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.final = nn.LayerNorm(config.n_embd)
        self.readout = nn.Parameter(torch.randn(config.vocab_size, config.n_embd) * 0.05)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def forward(self, idx, targets=None, cache=None):
        x, kept = self.wte(idx), []
        for n, layer in enumerate(self.layers):
            x, kv = layer(x, cache[n] if cache else None)
            kept.append(kv)
        logits = F.linear(self.final(x), self.readout)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        if cache is None:
            return logits, loss
        return logits, loss, kept
