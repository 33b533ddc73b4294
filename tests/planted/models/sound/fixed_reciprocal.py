"""Fixed reciprocal attention in the later half: q and k exchanged, and the twin it equals."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from assay.models.gpt2.config import GPTConfig


class Attention(nn.Module):
    """Standard, or with q and k exchanged; the cache then holds what stands for the keys."""

    def __init__(self, config, reciprocal):
        super().__init__()
        self.n_head, self.reciprocal = config.n_head, reciprocal
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x, past):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).view(B, T, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        if self.reciprocal:
            q, k = k, q
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        seen = torch.ones(T, k.size(2), dtype=torch.bool, device=x.device).tril(k.size(2) - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C)), (k, v)


class Block(nn.Module):
    def __init__(self, config, reciprocal):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = Attention(config, reciprocal)
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x, past):
        y, kv = self.attn(self.ln_1(x), past)
        x = x + y
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)))), kv


class GPT2FixedReciprocal(nn.Module):
    def __init__(self, config: GPTConfig, pattern="late"):
        super().__init__()
        self.config = config
        first = config.n_layer // 2 if pattern == "late" else config.n_layer
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList([Block(config, n >= first) for n in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    @torch.no_grad()
    def gauge_twin(self):
        """The same function: standard attention, the weights of q and k exchanged."""
        twin = GPT2FixedReciprocal(self.config, pattern="none").to(self.wte.weight)
        twin.load_state_dict(self.state_dict())
        for block in (block for block in self.h if block.attn.reciprocal):
            there = twin.h[list(self.h).index(block)].attn.c_attn
            for tensor in (there.weight, there.bias):
                q, k, v = tensor.clone().chunk(3)
                tensor.copy_(torch.cat([k, q, v]))
        return twin.train(self.training)

    def new_cache(self, batch):
        return [None] * self.config.n_layer

    def forward(self, idx, targets=None, cache=None):
        past = cache or self.new_cache(idx.size(0))
        start = past[0][0].size(2) if past[0] is not None else 0
        pos = torch.arange(start, start + idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        kept = []
        for block, kv in zip(self.h, past, strict=True):
            x, kv = block(x, kv)
            kept.append(kv)
        logits = self.ln_f(x) @ self.wte.weight.t()
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return (logits, loss) if cache is None else (logits, loss, kept)
