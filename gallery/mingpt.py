"""minGPT's CausalSelfAttention, which holds the whole score matrix.

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
    "repository": "karpathy/minGPT",
    "commit": "37baab71b9abea1b76ab957409a1cc2fbfba8a26",
    "files": {"mingpt/model.py": "83ee22dc07707fd9cb62"},
}
LIMITS = {"queries": "equal", "masks": "causal", "groups": [1]}  # self-attention of a GPT

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M, D] -> [B, H, M, D]."""
    batch, heads, length, dim = q.shape
    config = _module().GPT.get_default_config()
    config.n_head = config.n_embd = heads
    config.block_size, config.attn_pdrop, config.resid_pdrop = length, 0.0, 0.0
    layer = _module().CausalSelfAttention(config).to(q.device)
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
