"""A GPT-2 with gates between blocks that are faded in over the first hundred steps.

Re-enacts a coupling scale that counts calls in training mode on a plain integer: two equal calls
differ, and a restored checkpoint starts the ramp again.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

from assay.models.gpt2.config import GPTConfig

PLANTED = "each training call moves the coupling; no checkpoint knows of it"
CAUGHT_BY = ("state", "checkpoint")
CAUSE = ("state", "call", "left", "again", "checkpoint", "twice")


class Block(nn.Module):
    """The hidden units of this block's MLP gate the attention heads of the next one."""

    def __init__(self, config, *, first, last):
        super().__init__()
        E, hidden = config.n_embd, 4 * config.n_embd
        self.n_head = config.n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(E), nn.LayerNorm(E)
        self.c_attn, self.c_out = nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.c_fc, self.c_proj = nn.Linear(E, hidden), nn.Linear(hidden, E)
        self.alpha = None if first else nn.Parameter(torch.tensor(0.1))
        if not last:
            self.gate_down = nn.Linear(hidden, 4, bias=False)
            self.gate_up = nn.Linear(4, config.n_head)
            nn.init.constant_(self.gate_up.bias, 2.0)
        self.last = last

    def attention(self, x, gate):
        B, T, E = x.shape
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in (q, k, v))
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        att = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(future, float("-inf")).softmax(-1)
        if gate is not None:
            att = att * (1 - self.alpha + self.alpha * gate.transpose(1, 2)[..., None])
        return self.c_out((att @ v).transpose(1, 2).reshape(B, T, E))

    def forward(self, x, gate):
        x = x + self.attention(self.ln_1(x), gate)
        hidden = F.gelu(self.c_fc(self.ln_2(x)))
        x = x + self.c_proj(hidden)
        if self.last:
            return x, None
        count = torch.arange(1, x.size(1) + 1, device=x.device)[:, None]
        summary = self.gate_down(hidden).cumsum(1) / count
        return x, torch.sigmoid(self.gate_up(summary))


class GPT2RampCountsCalls(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        L = config.n_layer
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.blocks = nn.ModuleList(
            [Block(config, first=n == 0, last=n == L - 1) for n in range(L)]
        )
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        self.calls = 0
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def forward(self, idx, targets=None):
        pos = torch.arange(idx.size(1), device=idx.device)
        self.calls += self.training
        coupling = min(1.0, self.calls / 100)
        x, gate = self.wte(idx) + self.wpe(pos), None
        for block in self.blocks:
            x, gate = block(x, gate)
            if gate is not None:
                gate = 1 - coupling * gate
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        return logits, loss
