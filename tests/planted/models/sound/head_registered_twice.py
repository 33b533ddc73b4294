"""The embedding is also registered as the head: one parameter under two names.

A checkpoint that saves both names must not store, or count, it twice, nor lose the tie.
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from assay.models.gpt2.config import GPTConfig


@dataclass
class Seen:
    """What one layer remembers: queries too, since they are the keys of the mirrored view."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor

    def followed_by(self, q, k, v):
        pairs = zip((self.q, self.k, self.v), (q, k, v), strict=True)
        return Seen(*(torch.cat(pair, dim=2) for pair in pairs))


class ReciprocalAttention(nn.Module):
    """(1 - p) softmax(mask(S)) V + p softmax(mask(S^T)) V, with p learned for each layer."""

    def __init__(self, config):
        super().__init__()
        self.heads = config.n_head
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        self.alternation = nn.Parameter(torch.zeros(()))

    def forward(self, x, past=None):
        B, T, E = x.shape
        parts = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in parts)
        seen = Seen(q, k, v) if past is None else past.followed_by(q, k, v)
        S = seen.k.size(2)
        hidden = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        scale = q.size(-1) ** -0.5
        scores = (q @ seen.k.mT * scale).masked_fill(hidden, -torch.inf)
        mirror = (k @ seen.q.mT * scale).masked_fill(hidden, -torch.inf)
        p = torch.sigmoid(self.alternation)
        y = (1 - p) * scores.softmax(-1) @ seen.v + p * mirror.softmax(-1) @ seen.v
        return self.proj(y.transpose(1, 2).reshape(B, T, E)), seen


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = ReciprocalAttention(config)
        self.up = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x, past=None):
        y, seen = self.attn(self.ln_1(x), past)
        x = x + y
        return x + self.down(F.gelu(self.up(self.ln_2(x)))), seen


class GPT2HeadRegisteredTwice(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.register_parameter("head", self.wte.weight)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def new_cache(self, batch):
        return []

    def cache_bytes(self, batch, tokens):
        numbers = 3 * self.config.n_embd * self.config.n_layer
        return batch * tokens * numbers * self.wte.weight.element_size()

    def forward(self, idx, targets=None, cache=None):
        start = cache[0].k.size(2) if cache else 0
        pos = torch.arange(start, start + idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        layers = []
        for n, block in enumerate(self.blocks):
            x, seen = block(x, cache[n] if cache else None)
            layers.append(seen)
        logits = F.linear(self.ln_f(x), self.head)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1)
        if cache is not None:
            return logits, loss, layers
        return logits, loss
