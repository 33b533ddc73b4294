"""A GPT-2 whose keys and values are int8 with one scale for each token and head.

Re-enacts a compression ratio that counts the codes and not the scales that go with them.
"""

import torch
from torch import nn
from torch.nn import functional as F

from assay.models.gpt2.config import GPTConfig

PLANTED = "the scales of the quantised cache are not counted"
CAUGHT_BY = ("bytes",)
CAUSE = ("byte", "claim", "cache")


def normed(x, p, name):
    return F.layer_norm(x, x.shape[-1:], p[f"{name}_gain"], p[f"{name}_shift"])


def rounded(x):
    """int8 codes and scales of x, and their product with a straight-through gradient."""
    scale = x.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 127
    codes = (x.detach() / scale).round().to(torch.int8)
    return codes, scale, x + (codes * scale - x.detach())


def attention(x, p, n, heads, cache):
    batch, new, width = x.shape
    qkv = F.linear(x, p[f"qkv_{n}"]).view(batch, new, 3, heads, width // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    codes, scales, kv = rounded(torch.stack((k, v)))
    if cache is not None:
        if n in cache:
            codes = torch.cat((cache[n]["codes"], codes), dim=3)
            scales = torch.cat((cache[n]["scales"], scales), dim=3)
        cache[n] = {"codes": codes, "scales": scales}
        kv = codes * scales
    k, v = kv
    total = k.shape[2]
    i = torch.arange(total - new, total, device=x.device)[:, None]
    j = torch.arange(total, device=x.device)[None, :]
    scores = q @ k.mT / (width // heads) ** 0.5
    scores = scores.masked_fill(j > i, -torch.inf)
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


class GPT2BytesScalesForgotten(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.p = parameters_of(config)

    def get_num_params(self):
        return sum(value.numel() for value in self.p.values())

    def cache_bytes(self, batch, tokens):
        return batch * tokens * self.config.n_layer * 2 * self.config.n_embd

    def forward(self, idx, targets=None, cache=None):
        p, config = self.p, self.config
        before = cache[0]["codes"].shape[3] if cache else 0
        x = F.embedding(idx, p["wte"]) + p["wpe"][before : before + idx.shape[1]]
        for n in range(config.n_layer):
            x = x + attention(normed(x, p, f"one_{n}"), p, n, config.n_head, cache)
            x = x + mlp(normed(x, p, f"two_{n}"), p, n)
        logits = F.linear(normed(x, p, "last"), p["wte"])
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.mT, targets, ignore_index=-1)
        return (logits, loss) if cache is None else (logits, loss, cache)
