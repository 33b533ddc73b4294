"""flash_attention and flash_attention_causal of FlashAttention-PyTorch: tiles in plain torch.

A port: the files name the device "cuda"; here it is that of the queries.
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
    "repository": "shreyansh26/FlashAttention-PyTorch",
    "commit": "441595134b1283bf1d91c2d5154fe57204f9c6e1",
    "files": {
        "flash_attention.py": "7c46118be9f32003b9a9",
        "flash_attention_causal.py": "82a7e59a2df924beb741",
    },
}
LIMITS = {"groups": [1]}  # its products have one axis of heads

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]; gradients are those of autograd."""
    full, masked = _modules()
    if causal:
        return masked.flash_attention_causal(q, k, v)
    mask = torch.ones(k.shape[0], k.shape[2], device=k.device)
    return full.flash_attention(q, k, v, mask)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what it has no argument for."""
    return upstream.refusal() or no_scale(spec)


@cache
def _modules() -> list[ModuleType]:
    port = [("device='cuda'", "device=Q.device")]
    return [upstream.load(file, port=port) for file in UPSTREAM["files"]]
