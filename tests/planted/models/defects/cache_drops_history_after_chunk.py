"""A GPT-2 with multi-head latent attention and a spliced latent cache.

Re-enacts a path, taken by chunks only, that hands back the entries of the new tokens without
those that were there before. One token at a time all is well.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

from assay.models.gpt2.config import RA_MLA_Config

PLANTED = "a chunk returns a cache without the earlier entries"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token", "chunk", "length", "entries")


class KVSplice(nn.Module):
    """Keeps `kept` of `width` numbers: orthogonal rows to begin with, expanded by the transpose."""

    def __init__(self, width, kept):
        super().__init__()
        self.compress = nn.Linear(width, kept, bias=False)
        self.expand = nn.Linear(kept, width, bias=False)
        nn.init.orthogonal_(self.compress.weight)
        self.expand.weight.data.copy_(self.compress.weight.data.T)


class MLA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.H, self.d = cfg.n_heads, cfg.head_dim
        self.W_q = nn.Linear(cfg.d_model, self.H * self.d)
        self.to_kv_latent = nn.Linear(cfg.d_model, cfg.d_latent)
        self.kvsplice = KVSplice(cfg.d_latent, round(cfg.d_latent * cfg.splice_ratio))
        self.from_kv_latent = nn.Linear(cfg.d_latent, 2 * self.H * self.d)
        self.out_proj = nn.Linear(self.H * self.d, cfg.d_model)

    def forward(self, x, past=None):
        B, T, _ = x.shape
        q = self.W_q(x).view(B, T, self.H, self.d).transpose(1, 2)
        code = self.kvsplice.compress(self.to_kv_latent(x))
        if past is not None:
            code = torch.cat([past, code], dim=1)
        S = code.size(1)
        kv = self.from_kv_latent(self.kvsplice.expand(code))
        k, v = kv.view(B, S, 2, self.H, self.d).permute(2, 0, 3, 1, 4)
        seen = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        kept = code if T == 1 else code[:, -T:]
        return self.out_proj(y.transpose(1, 2).reshape(B, T, -1)), kept


class MLABlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.d_model)
        self.attn = MLA(cfg)
        self.ln2 = nn.LayerNorm(cfg.d_model)
        width = cfg.mlp_width or 4 * cfg.d_model
        self.mlp = nn.Sequential(
            nn.Linear(cfg.d_model, width),
            nn.GELU(),
            nn.Linear(width, cfg.d_model),
            nn.Dropout(cfg.dropout),
        )

    def forward(self, x, past=None):
        a, new = self.attn(self.ln1(x), past)
        x = x + a
        return x + self.mlp(self.ln2(x)), new


class GPT2CacheDropsHistoryAfterChunk(nn.Module):
    def __init__(self, cfg: RA_MLA_Config):
        super().__init__()
        self.cfg = cfg
        self.wte = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.wpe = nn.Embedding(cfg.block_size, cfg.d_model)
        self.drop = nn.Dropout(cfg.dropout)
        self.blocks = nn.ModuleList([MLABlock(cfg) for _ in range(cfg.n_layers)])
        self.ln_f = nn.LayerNorm(cfg.d_model)
        self.lm_head = nn.Linear(cfg.d_model, cfg.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, p in self.named_parameters():
            if p.dim() == 2 and "kvsplice" not in name:
                nn.init.normal_(p, std=0.02)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def new_cache(self, batch):
        return []

    def cache_bytes(self, batch, tokens):
        kept = sum(block.attn.kvsplice.compress.out_features for block in self.blocks)
        return batch * tokens * kept * self.wte.weight.element_size()

    def forward(self, idx, targets=None, cache=None):
        T = idx.size(1)
        start = cache[0].size(1) if cache else 0
        pos = torch.arange(start, start + T, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        codes = []
        for i, block in enumerate(self.blocks):
            x, code = block(x, cache[i] if cache else None)
            codes.append(code)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        if cache is None:
            return logits, loss
        return logits, loss, codes
