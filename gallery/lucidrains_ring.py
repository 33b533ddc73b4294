"""ring_flash_attn of ring-attention-pytorch, on one machine: tiles in plain torch, own backward."""

from functools import cache
from types import ModuleType

import torch
from _refusals import no_scale
from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "lucidrains/ring-attention-pytorch",
    "commit": "373f75b725c2111bfe6a8d47c72a0b01995150c5",
    "files": {"ring_attention_pytorch/ring_flash_attention.py": "34a02102bedfbf73bee7"},
}

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D], with its default bucket."""
    return _module().ring_flash_attn(q, k, v, causal=causal)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what it has no argument for."""
    return upstream.refusal() or no_scale(spec)


@cache
def _module() -> ModuleType:
    return upstream.load()
