"""A GPT-2 that attends to the 38.2% most important keys only.

Re-enacts a pruned attention that masks once, to find what is important, and then takes the
softmax of the unmasked scores of the keys that it kept.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import GPTConfig

PLANTED = "the scores of the kept keys are not masked"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.query = nn.Linear(config.n_embd, config.n_embd)
        self.key = nn.Linear(config.n_embd, config.n_embd)
        self.value = nn.Linear(config.n_embd, config.n_embd)
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        size = config.block_size
        self.register_buffer("mask", torch.ones(size, size).tril().bool(), persistent=False)

    def forward(self, x):
        b, t, c = x.size()
        q = self.query(x).view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        k = self.key(x).view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        v = self.value(x).view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        masked = att.masked_fill(~self.mask[:t, :t], float("-inf"))
        importance = F.softmax(masked, dim=-1).detach().sum(dim=2)
        kept = importance.topk(max(1, round(0.382 * t)), dim=-1).indices
        att = att.gather(3, kept[:, :, None].expand(-1, -1, t, -1))
        v = v.gather(2, kept[..., None].expand(-1, -1, -1, v.size(-1)))
        y = self.drop(F.softmax(att, dim=-1)) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.drop(self.down(F.gelu(self.up(x))))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln1 = nn.LayerNorm(config.n_embd)
        self.ln2 = nn.LayerNorm(config.n_embd)
        self.attn = SelfAttention(config)
        self.mlp = FeedForward(config)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return x


class GPT2KvPruneUnmasked(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.tok_emb = nn.Embedding(config.vocab_size, config.n_embd)
        self.pos_emb = nn.Parameter(torch.zeros(1, config.block_size, config.n_embd))
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def forward(self, idx, targets=None):
        t = idx.size(1)
        x = self.drop(self.tok_emb(idx) + self.pos_emb[:, :t])
        x = self.ln_f(self.blocks(x))
        logits = self.head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
