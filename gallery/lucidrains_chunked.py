"""memory_efficient_attention of memory-efficient-attention-pytorch: chunks under checkpoint."""

from functools import cache
from types import ModuleType

import torch
from _refusals import no_scale
from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
UPSTREAM = {
    "repository": "lucidrains/memory-efficient-attention-pytorch",
    "commit": "d54f391370ecbf843a871f0e260425d076995550",
    "files": {
        "memory_efficient_attention_pytorch/memory_efficient_attention.py": "28322a3d24aafc62acaa"
    },
}
LIMITS = {"groups": [1]}  # its products have one axis of heads

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D], with its default buckets."""
    return _module().memory_efficient_attention(q, k, v, causal=causal)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what it has no argument for."""
    return upstream.refusal() or no_scale(spec)


@cache
def _module() -> ModuleType:
    return upstream.load()
