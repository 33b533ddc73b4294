"""A small GPT-2 that keeps the contract, with branches that break it or keep it another way.

B batch, T tokens, E width, H heads.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class How:
    """What a copy does otherwise; the names of its branches."""

    attention: str = ""
    block: str = ""
    model: str = ""


class Codec(nn.Module):
    """A latent and back; orthogonal at the start."""

    def __init__(self, width):
        super().__init__()
        self.down = nn.Linear(width, width // 2, bias=False)
        self.up = nn.Linear(width // 2, width, bias=False)
        self.reset()

    def reset(self):
        nn.init.orthogonal_(self.down.weight)
        with torch.no_grad():
            self.up.weight.copy_(self.down.weight.T)

    def compress(self, x):
        return self.down(x)

    def expand(self, x):
        return self.up(x)


class Places(nn.Module):
    """Positions that start at zero, unless the model knows better."""

    def __init__(self, config):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(config.block_size, config.n_embd))

    def forward(self, places):
        return self.table[places]


class Attention(nn.Module):
    def __init__(self, config, how):
        super().__init__()
        wide = config.n_embd
        self.how, self.heads = how.attention, config.n_head
        self.q, self.k, self.v = (nn.Linear(wide, wide) for _ in range(3))
        self.c_proj = nn.Linear(wide, wide)
        if "codec" in how.attention:
            self.codec = Codec(wide)
        if "mix" in how.attention:
            self.mix = nn.Parameter(torch.zeros(()))
        if how.attention == "frozen mask":
            ones = torch.ones(config.block_size, config.block_size)
            self.mask = nn.Parameter(ones.tril(), requires_grad=False)
        if how.attention == "dead half":
            self.v = nn.Linear(wide, 2 * wide)
        if how.attention == "unused":
            self.extra = nn.Linear(wide, wide)
        if how.attention == "learned twice zero":
            self.gain, self.extra = nn.Parameter(torch.zeros(1)), nn.Linear(wide, wide)

    def forward(self, x, cache):
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.how == "swapped":
            q, k = k, q
        past = 0 if cache is None else cache.get("tokens", 0)
        if self.how == "dead half":
            v = v[..., : x.shape[-1]]
        if self.how == "detached":
            v = v + self.c_proj(x).detach() - self.c_proj(x).detach()
        k, v, stored = self._store(k, v, cache)
        y = self._attend(*map(self._split, (q, k, v)), past)
        y = self.c_proj(y.transpose(1, 2).flatten(2))
        if self.how == "detached":
            y = y.detach() + x
        if self.how == "learned twice zero":
            y = y + self.gain * self.extra(y)
        return y, stored

    def _split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _store(self, k, v, cache):
        """All keys and values, and what the cache of this layer becomes."""
        tokens = k.shape[1]
        if self.how == "codec":
            v = self.codec.compress(v)
        if self.how == "codec for caches" and cache is not None:
            v = self.codec.expand(self.codec.compress(v))
        if self.how == "codec in evaluation" and not self.training:
            v = self.codec.expand(self.codec.compress(v))
        if cache is None:
            kept = None
        else:
            old_k, old_v = cache.get("k"), cache.get("v")
            if old_k is not None:
                k, v = torch.cat([old_k, k], 1), torch.cat([old_v, v], 1)
            if self.how == "codec again":
                v = self.codec.expand(self.codec.compress(v))
            kept = {"k": k, "v": v, "tokens": cache.get("tokens", 0) + tokens}
        if self.how == "codec":
            v = self.codec.expand(v)
        if self.how == "codec again" and cache is None:
            v = self.codec.expand(self.codec.compress(v))
        return k, v, kept

    def _attend(self, q, k, v, past):
        new, total = q.shape[2], k.shape[2]
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        offset = 0 if self.how == "top left" else total - new
        seen = torch.ones(new, total, dtype=torch.bool).tril(offset)
        if self.how == "frozen mask":
            seen = self.mask[past : past + new, :total] != 0
        if self.how == "window":
            seen = seen.triu(total - new - 4)
        masked = scores.masked_fill(~seen, -torch.inf)
        if self.how == "float softmax":
            return masked.float().softmax(-1).to(v.dtype) @ v
        weights = masked.softmax(-1)
        if self.how == "transposed mix" and self.training:
            other = scores.masked_fill(~seen, -1e9).mT.softmax(-1)
            weights = (1 - self.mix) * weights + self.mix * other
        if self.how == "hard mix" and not self.training:
            return v if self.mix > 0 else weights @ v
        if self.how == "hard mix":
            weights = weights + self.mix * torch.eye(new)
        return weights @ v


class Block(nn.Module):
    def __init__(self, config, how):
        super().__init__()
        wide = config.n_embd
        self.how = how.block
        self.ln_1, self.ln_2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.attn = Attention(config, how)
        self.mlp = nn.Sequential(nn.Linear(wide, 2 * wide), nn.GELU(), nn.Linear(2 * wide, wide))
        self.gate = nn.Parameter(torch.zeros(wide)) if "mean" in self.how else None
        if self.how == "running mean":
            self.register_buffer("mean", torch.zeros(wide))
        if self.how == "zero output":
            self.out = nn.Linear(wide, wide)
            nn.init.zeros_(self.out.weight)
            nn.init.constant_(self.out.bias, 2.0)

    def forward(self, x, cache):
        y, cache = self.attn(self.ln_1(x), cache)
        x = x + y
        h = self.mlp(self.ln_2(x))
        if self.how == "time mean":
            h = h + self.gate * h.mean(1, keepdim=True)
        if self.how == "batch mean":
            h = h + self.gate * h.mean(0, keepdim=True)
        if self.how == "last mean":
            last = getattr(self, "context", None)
            self.context = h.mean()
            h = h if last is None else h + self.gate * last
        if self.how == "running mean":
            self.mean.mul_(0.9).add_(0.1 * h.detach().mean((0, 1)))
            h = h + self.gate * self.mean
        if self.how == "dropout":
            h = F.dropout(h, 0.1, self.training)
        if self.how == "zero output":
            h = h + self.out(h)
        return x + h, cache


class Model(nn.Module):
    """nanoGPT's way: a general start by apply, residual projections after it, a tied head."""

    how = How()

    def __init__(self, config):
        super().__init__()
        self.config = config
        how = self.how
        if how.model == "raises":
            Block(config)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        if how.model in ("own places", "swept places"):
            self.wpe = Places(config)
        self.h = nn.ModuleList([Block(config, how) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        if how.model == "plain table":
            self.table = torch.randn(config.n_embd)
        if how.model == "empty":
            self.scale = nn.Parameter(torch.empty(config.n_embd))
        if how.model == "places":
            self.places = nn.Parameter(torch.zeros(config.block_size, config.n_embd))
        if how.model != "own start":
            self.apply(self._start)
        self._scale_residuals()
        if how.model == "parts start again":
            for block in self.h:
                block.attn.codec.reset()
        if how.model == "empty":
            nn.init.ones_(self.scale)

    def _start(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if module is self and self.how.model == "places":
            nn.init.normal_(self.places, std=0.02)
        if isinstance(module, Places) and self.how.model == "own places":
            nn.init.normal_(module.table, std=0.02)

    def _scale_residuals(self):
        for name, weight in self.named_parameters():
            if weight.ndim > 1 and self.how.model == "swept places":
                nn.init.normal_(weight, std=0.02)
            if name.endswith("c_proj.weight"):
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * self.config.n_layer))

    def get_num_params(self):
        return sum(weight.numel() for weight in self.parameters())

    def forward(self, idx, targets=None, cache=None):
        past = cache[0].get("tokens", 0) if cache and self.how.model != "no offset" else 0
        places = torch.arange(past, past + idx.shape[1])
        x = self.wte(idx) + self.wpe(places)
        if self.how.model == "plain table":
            x = x + self.table
        if self.how.model == "places":
            x = x + self.places[places]
        if self.how.model == "empty":
            x = x * self.scale
        kept = []
        for number, block in enumerate(self.h):
            x, stored = block(x, None if cache is None else (cache or [{}] * 99)[number])
            kept.append(stored)
        logits = self.lm_head(self.ln_f(x))
        loss = self._loss(logits, targets)
        if self.how.model == "last position" and targets is None and cache is None:
            logits = logits[:, -1:]
        return (logits, loss) if cache is None else (logits, loss, kept)

    def _loss(self, logits, targets):
        if targets is None:
            return None
        if self.how.model == "shifted loss":
            logits, targets = logits[:, :-1], targets[:, 1:]
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        if self.how.model == "counts ignored":
            loss = loss * (targets >= 0).float().mean()
        if self.how.model == "not finite":
            loss = loss + 0 * (logits * 0).sqrt().sum()
        return loss
