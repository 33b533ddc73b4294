"""A GPT-2 whose MLPs gate attention through a context that each block keeps.

Re-enacts a block that reads its own context of the call before instead of that of the block
before; the second backward runs into the graph of the first and raises.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

from assay.models.gpt2.config import GPTConfig

PLANTED = "a block reads the context, and graph, of the previous call"
CAUGHT_BY = ("state", "step", "gradients")
CAUSE = ("backward", "second", "graph", "state", "call", "left")


class Block(nn.Module):
    """The hidden units of an MLP gate the attention heads; the context is kept at hand."""

    def __init__(self, config):
        super().__init__()
        E, hidden = config.n_embd, 4 * config.n_embd
        self.n_head = config.n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(E), nn.LayerNorm(E)
        self.c_attn, self.c_out = nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.c_fc, self.c_proj = nn.Linear(E, hidden), nn.Linear(hidden, E)
        self.alpha = nn.Parameter(torch.tensor(0.1))
        self.gate_down = nn.Linear(hidden, 4, bias=False)
        self.gate_up = nn.Linear(4, config.n_head)
        nn.init.constant_(self.gate_up.bias, 2.0)
        self.context = None

    def attention(self, x, gate):
        B, T, E = x.shape
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in (q, k, v))
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        att = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(future, float("-inf")).softmax(-1)
        if gate is not None:
            att = att * (1 - self.alpha + self.alpha * gate.transpose(1, 2)[..., None])
        return self.c_out((att @ v).transpose(1, 2).reshape(B, T, E))

    def forward(self, x):
        gate = self.context
        if gate is not None and gate.shape[:2] != x.shape[:2]:
            gate = None
        x = x + self.attention(self.ln_1(x), gate)
        hidden = F.gelu(self.c_fc(self.ln_2(x)))
        x = x + self.c_proj(hidden)
        count = torch.arange(1, x.size(1) + 1, device=x.device)[:, None]
        summary = self.gate_down(hidden).cumsum(1) / count
        self.context = torch.sigmoid(self.gate_up(summary))
        return x


class GPT2ContextKeptOnBlock(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def forward(self, idx, targets=None):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        return logits, loss
