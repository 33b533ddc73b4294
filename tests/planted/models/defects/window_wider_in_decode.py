"""A GPT-2 with a sliding window of five tokens, as plain functions.

Re-enacts a window counted with the new token in the full pass and without it when decoding.
"""

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import GPTConfig

PLANTED = "cached decode sees one token more than the window holds"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")

WINDOW = 5


def normed(x, p, name):
    return F.layer_norm(x, x.shape[-1:], p[f"{name}_gain"], p[f"{name}_shift"])


def attention(x, p, n, heads, cache):
    batch, new, width = x.shape
    qkv = F.linear(x, p[f"qkv_{n}"]).view(batch, new, 3, heads, width // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    if cache is not None:
        if n in cache:
            k = torch.cat((cache[n]["k"], k), dim=2)
            v = torch.cat((cache[n]["v"], v), dim=2)
        cache[n] = {"k": k, "v": v}
    total = k.shape[2]
    i = torch.arange(total - new, total, device=x.device)[:, None]
    j = torch.arange(total, device=x.device)[None, :]
    scores = q @ k.mT / (width // heads) ** 0.5
    reach = WINDOW if cache is None else WINDOW + 1
    scores = scores.masked_fill((j > i) | (j <= i - reach), -torch.inf)
    mixed = scores.softmax(dim=-1) @ v
    return F.linear(mixed.transpose(1, 2).reshape(batch, new, width), p[f"out_{n}"])


def mlp(x, p, n):
    return F.linear(F.gelu(F.linear(x, p[f"up_{n}"], p[f"up_shift_{n}"])), p[f"down_{n}"])


def parameters_of(config):
    width, hidden = config.n_embd, 4 * config.n_embd
    p = {
        "wte": torch.randn(config.vocab_size, width) * 0.02,
        "wpe": torch.randn(config.block_size, width) * 0.02,
        "last_gain": torch.ones(width),
        "last_shift": torch.zeros(width),
    }
    for n in range(config.n_layer):
        p[f"qkv_{n}"] = torch.randn(3 * width, width) * 0.02
        p[f"out_{n}"] = torch.randn(width, width) * 0.02
        p[f"up_{n}"] = torch.randn(hidden, width) * 0.02
        p[f"up_shift_{n}"] = torch.zeros(hidden)
        p[f"down_{n}"] = torch.randn(width, hidden) * 0.02
        for norm in ("one", "two"):
            p[f"{norm}_{n}_gain"] = torch.ones(width)
            p[f"{norm}_{n}_shift"] = torch.zeros(width)
    return nn.ParameterDict({name: nn.Parameter(value) for name, value in p.items()})


class GPT2WindowWiderInDecode(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.p = parameters_of(config)

    def get_num_params(self):
        return sum(value.numel() for value in self.p.values())

    def forward(self, idx, targets=None, cache=None):
        p, config = self.p, self.config
        before = cache[0]["k"].shape[2] if cache else 0
        x = F.embedding(idx, p["wte"]) + p["wpe"][before : before + idx.shape[1]]
        for n in range(config.n_layer):
            x = x + attention(normed(x, p, f"one_{n}"), p, n, config.n_head, cache)
            x = x + mlp(normed(x, p, f"two_{n}"), p, n)
        logits = F.linear(normed(x, p, "last"), p["wte"])
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.mT, targets, ignore_index=-1)
        return (logits, loss) if cache is None else (logits, loss, cache)
