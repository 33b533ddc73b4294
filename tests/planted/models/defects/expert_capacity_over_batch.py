"""A GPT-2 with two experts of limited capacity; a token that finds its expert full is skipped.

Re-enacts capacity counted over the flattened batch: a sequence loses tokens because of the
sequences before it. In time each of them is causal.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import GPTConfig

PLANTED = "the room in an expert is used up by other sequences"
CAUGHT_BY = ("causality",)
CAUSE = ("batch", "sequence", "other")


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
        att = att.masked_fill(~self.mask[:t, :t], float("-inf"))
        att = F.softmax(att, dim=-1)
        y = self.drop(att) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        E = config.n_embd
        self.router = nn.Linear(E, 2, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(E, 2 * E), nn.GELU(), nn.Linear(2 * E, E)) for _ in range(2)
        )
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        score, choice = self.router(tokens).softmax(dim=-1).max(dim=-1)
        room = max(1, int(0.375 * len(tokens)))
        y = torch.zeros_like(tokens)
        for n, expert in enumerate(self.experts):
            mine = (choice == n).nonzero().squeeze(1)[:room]
            y = y.index_add(0, mine, score[mine, None] * expert(tokens[mine]))
        return self.drop(y.view_as(x))


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


class GPT2ExpertCapacityOverBatch(nn.Module):
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
