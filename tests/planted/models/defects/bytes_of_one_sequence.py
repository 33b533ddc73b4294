"""A GPT-2 with rotary positions and grouped heads that says what its cache takes.

Re-enacts a formula for one sequence that is asked for a batch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from assay.models.gpt2.config import GPTConfig

PLANTED = "the claim does not grow with the batch"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, first):
    """Rotary positions for x [B, T, heads, d], whose first token is number `first`."""
    half = x.shape[-1] // 2
    rate = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(first, first + x.shape[1], device=x.device)[:, None] * rate
    cos, sin = (f(angle)[:, None, :].to(x.dtype) for f in (torch.cos, torch.sin))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class GroupedAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.d = config.n_head, config.head_dim
        self.kv_heads = self.heads // 2 if self.heads % 2 == 0 else self.heads
        self.wq = nn.Linear(config.n_embd, self.heads * self.d, bias=False)
        self.wk = nn.Linear(config.n_embd, self.kv_heads * self.d, bias=False)
        self.wv = nn.Linear(config.n_embd, self.kv_heads * self.d, bias=False)
        self.wo = nn.Linear(self.heads * self.d, config.n_embd, bias=False)

    def forward(self, x, past):
        B, T, _ = x.shape
        first = 0 if past is None else past["k"].shape[1]
        q = rotate(self.wq(x).view(B, T, self.heads, self.d), first)
        k = rotate(self.wk(x).view(B, T, self.kv_heads, self.d), first)
        v = self.wv(x).view(B, T, self.kv_heads, self.d)
        if past is not None:
            k, v = torch.cat([past["k"], k], dim=1), torch.cat([past["v"], v], dim=1)
        present = {"k": k, "v": v}
        group = self.heads // self.kv_heads
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mask = torch.full((T, first + T), -torch.inf, device=x.device, dtype=x.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.triu(first + 1))
        return self.wo(y.transpose(1, 2).flatten(2)), present


class SwiGLU(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.hidden = 2 * config.n_embd
        self.w13 = nn.Linear(config.n_embd, 2 * self.hidden, bias=False)
        self.w2 = nn.Linear(self.hidden, config.n_embd, bias=False)

    def forward(self, x):
        gate, up = self.w13(x).chunk(2, dim=-1)
        return self.w2(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.attn = RMSNorm(config.n_embd), GroupedAttention(config)
        self.norm2, self.mlp = RMSNorm(config.n_embd), SwiGLU(config)

    def forward(self, x, past):
        y, present = self.attn(self.norm1(x), past)
        x = x + y
        return x + self.mlp(self.norm2(x)), present


class GPT2BytesOfOneSequence(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.n_embd)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.n_layer)])
        self.norm = RMSNorm(config.n_embd)
        self.output = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def cache_bytes(self, batch, tokens):
        kept = sum(2 * layer.attn.kv_heads * layer.attn.d for layer in self.layers)
        return tokens * kept * self.output.weight.element_size()

    def forward(self, idx, targets=None, cache=None):
        x = self.embed(idx)
        kept = [None] * len(self.layers)
        for n, layer in enumerate(self.layers):
            x, kept[n] = layer(x, None if cache is None else cache[n])
        logits, loss = self.output(self.norm(x)), None
        if targets is not None:
            loss = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1)
        return (logits, loss) if cache is None else (logits, loss, kept)
