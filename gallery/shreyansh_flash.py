"""flash_attention and flash_attention_causal of FlashAttention-PyTorch: tiles in plain torch.

A port: the files name the device "cuda"; here it is that of the queries.
"""

from functools import cache, partial
from types import ModuleType

import torch
from _refusals import only_default_scale
from _upstream import Upstream

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
PORT = (("device='cuda'", "device=Q.device"),)

upstream = Upstream(**UPSTREAM, port=PORT)
supports = partial(only_default_scale, upstream)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]; gradients are those of autograd."""
    full, masked = _modules()
    if causal:
        return masked.flash_attention_causal(q, k, v)
    mask = torch.ones(k.shape[0], k.shape[2], device=k.device)
    return full.flash_attention(q, k, v, mask)


@cache
def _modules() -> list[ModuleType]:
    return [upstream.load(file) for file in UPSTREAM["files"]]
