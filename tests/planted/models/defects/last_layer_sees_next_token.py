"""A GPT-2 in einsum, whose last layer was ported from code with another mask convention.

Re-enacts triu(2) for triu(1) in one layer only: each position sees exactly one token ahead.
"""

import torch
from torch import einsum, nn
from torch.nn.functional import cross_entropy, gelu, layer_norm

from assay.models.gpt2.config import GPTConfig

PLANTED = "the mask of the last layer is one diagonal too wide"
CAUGHT_BY = ("causality", "cached")
CAUSE = ("position", "future", "later", "earlier", "before", "cache")

# b sequence, t query, s key, h head, d width of a head, e width of the model.


class KeyValueStore:
    """All layers in one buffer, allocated once for the longest sequence."""

    def __init__(self, config, batch, like):
        shape = (2, config.n_layer, batch, config.block_size, config.n_head, config.head_dim)
        self.buffer = torch.zeros(shape, dtype=like.dtype, device=like.device)
        self.length = 0

    def put(self, layer, k, v):
        end = self.length + k.shape[1]
        self.buffer[0, layer, :, self.length : end] = k.detach()
        self.buffer[1, layer, :, self.length : end] = v.detach()
        return self.buffer[0, layer, :, :end], self.buffer[1, layer, :, :end]

    def tensors(self):
        yield self.buffer[:, :, :, : self.length]


class Heads(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.layer = layer
        self.diagonal = 2 if layer == config.n_layer - 1 else 1
        shape = (config.n_head, config.n_embd, config.head_dim)
        self.W_q, self.W_k, self.W_v = (
            nn.Parameter(torch.randn(shape) * config.n_embd**-0.5) for _ in range(3)
        )
        self.W_o = nn.Parameter(torch.randn(shape).transpose(1, 2).contiguous() * 0.02)

    def forward(self, x, store):
        q = einsum("bte,hed->bthd", x, self.W_q)
        k = einsum("bte,hed->bthd", x, self.W_k)
        v = einsum("bte,hed->bthd", x, self.W_v)
        if store is not None:
            k, v = store.put(self.layer, k, v)
        t, s = q.shape[1], k.shape[1]
        scores = einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
        hidden = torch.ones(t, s, dtype=torch.bool, device=x.device).triu(s - t + self.diagonal)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return einsum("bhts,bshd,hde->bte", weights, v, self.W_o)


class Layer(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.heads = Heads(config, layer)
        self.W_in = nn.Parameter(torch.randn(config.n_embd, 4 * config.n_embd) * 0.1)
        self.b_in = nn.Parameter(torch.zeros(4 * config.n_embd))
        self.W_out = nn.Parameter(torch.randn(4 * config.n_embd, config.n_embd) * 0.02)
        self.gains = nn.Parameter(torch.ones(2, config.n_embd))

    def forward(self, x, store):
        size = x.shape[-1:]
        x = x + self.heads(layer_norm(x, size, self.gains[0]), store)
        return x + gelu(layer_norm(x, size, self.gains[1]) @ self.W_in + self.b_in) @ self.W_out


class GPT2LastLayerSeesNextToken(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.E = nn.Parameter(torch.randn(config.vocab_size, config.n_embd) * 0.1)
        self.P = nn.Parameter(torch.randn(config.block_size, config.n_embd) * 0.1)
        self.layers = nn.ModuleList(Layer(config, n) for n in range(config.n_layer))
        self.gain = nn.Parameter(torch.ones(config.n_embd))

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters())

    def new_cache(self, batch):
        return KeyValueStore(self.config, batch, self.E)

    def cache_bytes(self, batch, tokens):
        return 2 * self.config.n_layer * batch * tokens * self.config.n_embd * self.E.element_size()

    def forward(self, idx, targets=None, cache=None):
        start = 0 if cache is None else cache.length
        x = self.E[idx] + self.P[start : start + idx.shape[1]]
        for layer in self.layers:
            x = layer(x, cache)
        if cache is not None:
            cache.length += idx.shape[1]
        logits = layer_norm(x, x.shape[-1:], self.gain) @ self.E.T
        loss = None
        if targets is not None:
            loss = cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1)
        return (logits, loss) if cache is None else (logits, loss, cache)
