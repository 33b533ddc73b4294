"""A GPT-2 with an output gate that starts almost open, through a bias of 2.

Re-enacts biases that are all set to zero by what is built around them: the gate starts at a half.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

from assay.models.gpt2.config import GPTConfig

PLANTED = "the bias that opens the gate is zeroed by the model"
CAUGHT_BY = ("init",)
CAUSE = ("gate", "bias", "init", "overwrit")


class OutputGate(nn.Module):
    """A factor between 0 and 1 on each number that attention gives; it starts at 0.88."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, 2.0)

    def forward(self, y, x):
        return y * torch.sigmoid(self.linear(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        E = config.n_embd
        self.n_head = config.n_head
        self.norm_a, self.norm_m = nn.LayerNorm(E), nn.LayerNorm(E)
        self.q, self.k, self.v, self.o = (nn.Linear(E, E, bias=config.bias) for _ in range(4))
        self.gate = OutputGate(E)
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
        x = x + self.o(self.gate(y, h))
        return x + self.mlp(self.norm_m(x)), (k, v)


class GPT2InitGateBiasOverwritten(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

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
