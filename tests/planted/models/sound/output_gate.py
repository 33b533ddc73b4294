"""A gate on the output of attention that is exactly 1 when neutral, and its baseline."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from assay.models.gpt2.config import GPTConfig


class OutputGate(nn.Module):
    """A factor between 0 and 2 on each number that attention gives; it starts near 1."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.normal_(self.linear.weight, std=0.002)
        nn.init.zeros_(self.linear.bias)

    def forward(self, y, x):
        return y * (2 * torch.sigmoid(self.linear(x)))

    def neutral_(self):
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)


class Layer(nn.Module):
    def __init__(self, config, gated):
        super().__init__()
        E = config.n_embd
        self.n_head = config.n_head
        self.norm_a, self.norm_m = nn.LayerNorm(E), nn.LayerNorm(E)
        self.q, self.k, self.v, self.o = (nn.Linear(E, E, bias=config.bias) for _ in range(4))
        self.gate = OutputGate(E) if gated else None
        self.mlp = nn.Sequential(nn.Linear(E, 4 * E), nn.GELU(), nn.Linear(4 * E, E))

    def split(self, x):
        return x.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    def forward(self, x, past):
        h = self.norm_a(x)
        q, k, v = self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h))
        if past:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        offset = k.size(2) - q.size(2)
        seen = torch.ones(q.size(2), k.size(2), device=x.device).tril(offset).bool()
        y = F.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).flatten(2)
        if self.gate is not None:
            y = self.gate(y, h)
        x = x + self.o(y)
        return x + self.mlp(self.norm_m(x)), (k, v)


class GPT2OutputGate(nn.Module):
    def __init__(self, config: GPTConfig, gated=True):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.layers = nn.ModuleList(Layer(config, gated) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def baseline(self):
        return GPT2OutputGate(self.config, gated=False)

    def neutral_(self):
        for layer in self.layers:
            layer.gate.neutral_()

    def new_cache(self, batch):
        return [()] * self.config.n_layer

    def forward(self, idx, targets=None, cache=None):
        start = cache[0][0].size(2) if cache is not None and cache[0] else 0
        x = self.wte(idx) + self.wpe.weight[start : start + idx.size(1)]
        kept = []
        for layer, past in zip(self.layers, cache or [()] * len(self.layers), strict=True):
            x, kv = layer(x, past)
            kept.append(kv)
        logits = self.norm(x) @ self.wte.weight.T
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return (logits, loss) if cache is None else (logits, loss, kept)
