"""attention_ref of flash-attention, with which it tests its kernels: float32 inside."""

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
    "repository": "Dao-AILab/flash-attention",
    "commit": "0251105a2fb19d2957484b7f023cd8c115286ced",
    "files": {"flash_attn/utils/testing.py": "81be51f1de8427988984"},
}

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]."""
    out, _ = _module().attention_ref(q, k, v, causal=causal)
    return out


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what it has no argument for."""
    return upstream.refusal() or no_scale(spec)


@cache
def _module() -> ModuleType:
    return upstream.load()
