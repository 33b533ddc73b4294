"""nanoGPT's CausalSelfAttention, as it runs on a current torch (through torch's fused attention).

Its projections are replaced by what q, k and v are given as, so that only its attention remains.
"""

from functools import cache
from types import ModuleType

import torch
from _refusals import no_scale
from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
UPSTREAM = {
    "repository": "karpathy/nanoGPT",
    "commit": "3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
    "files": {"model.py": "c698f8b60129d793494d"},
}
LIMITS = {"queries": "equal", "masks": "causal", "groups": [1]}  # self-attention of a GPT

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M, D] -> [B, H, M, D]."""
    batch, heads, length, dim = q.shape
    config = _module().GPTConfig(
        block_size=length, n_head=heads, n_embd=heads, dropout=0.0, bias=False
    )
    layer = _module().CausalSelfAttention(config)
    layer.n_embd = heads * dim
    flat = [x.transpose(1, 2).reshape(batch, length, -1) for x in (q, k, v)]  # [B, M, H D]
    del layer.c_attn
    layer.c_attn = lambda x: torch.cat(flat, dim=2)
    layer.c_proj = torch.nn.Identity()
    return layer(flat[0]).view(batch, length, heads, dim).transpose(1, 2)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what it has no argument for."""
    return upstream.refusal() or no_scale(spec)


@cache
def _module() -> ModuleType:
    return upstream.load()
