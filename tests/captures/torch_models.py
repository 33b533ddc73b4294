"""Small torch models for tests of capture, and what is read back of them."""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils.checkpoint import checkpoint

from assay.captures.manifest import CaptureRecord
from assay.captures.store import Store
from assay.captures.tensor import Tensor


class SelfAttention(nn.Module):
    """Calls torch's function itself, as nanoGPT does."""

    def __init__(self, width=16, heads=2, **call):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.heads = heads
        self.call = {"is_causal": True} | call

    def forward(self, x):
        split = [part.unflatten(-1, (self.heads, -1)) for part in self.qkv(x).chunk(3, -1)]
        q, k, v = (part.transpose(1, 2) for part in split)
        out = functional.scaled_dot_product_attention(q, k, v, **self.call)
        return self.project(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, **more):
        super().__init__()
        self.attn = SelfAttention(**more)
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        return x + self.attn(self.norm(x))


class Plain(nn.Module):
    """A stack of blocks; `reentrant` says how they are checkpointed, if at all."""

    def __init__(self, layers=3, reentrant=None, **more):
        super().__init__()
        self.blocks = nn.ModuleList([Block(**more) for _ in range(layers)])
        self.reentrant = reentrant

    def forward(self, x):
        for block in self.blocks:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


class Mixer(nn.Module):
    """An attention that is not called one."""

    def forward(self, x):
        return functional.scaled_dot_product_attention(x, x, x)


class HoldsFunction(nn.Module):
    """Keeps torch's function where no name leads to it."""

    def __init__(self):
        super().__init__()
        self.inner = [functional.scaled_dot_product_attention]

    def forward(self, x):
        return self.inner[0](x, x, x)


class KnowsFunction(nn.Module):
    """Calls the function by a name of this file."""

    def forward(self, x):
        return sdpa(x, x, x)


def inputs(length=5, rows=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, length, 16, generator=generator, requires_grad=True)


def transformer(kind, attention="sdpa", layers=3, **more):
    """A tiny Llama, Qwen3 or GPT-2 with random weights."""
    import transformers

    shapes = {
        "llama": {"num_key_value_heads": 2},
        "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
        "gpt2": {},
    }
    common = {
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "vocab_size": 64,
        "max_position_embeddings": 64,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    if kind != "gpt2":
        common["intermediate_size"] = 48
    config = transformers.AutoConfig.for_model(kind, **common, **shapes[kind], **more)
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)


def tokens(length=7, rows=2):
    return torch.randint(0, 64, (rows, length), generator=torch.Generator().manual_seed(2))


def records(path: Path) -> list[CaptureRecord]:
    return Store.open(path).manifest().records


def as_torch(tensor: Tensor, order=None) -> torch.Tensor:
    """The captured bits as a tensor, lying in memory as it did."""
    values = torch.from_numpy(tensor.bits.copy()).view(getattr(torch, tensor.dtype))
    if order == "BSHD":
        values = values.transpose(1, 2).contiguous().transpose(1, 2)
    return values


def replayed(store: Store, record: CaptureRecord) -> tuple[torch.Tensor, torch.Tensor]:
    """torch's function on what was captured, and what was captured of its answer."""
    read = store.read(record)
    tensors = {name: as_torch(read[name], record.tensors[name].order) for name in read}
    assert not record.scalars["dropout"]
    out = functional.scaled_dot_product_attention(
        tensors["q"],
        tensors["k"],
        tensors["v"],
        attn_mask=tensors.get("mask"),
        is_causal=record.scalars["causal"],
        scale=record.scalars["scale"],
        enable_gqa=tensors["q"].shape[1] != tensors["k"].shape[1],
    )
    return out, tensors["out"]
