"""naive_parallel_attn of flash-linear-attention: its reference in plain torch."""

import torch
from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "fla-org/flash-linear-attention",
    "commit": "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
    "files": {"fla/ops/attn/naive.py": "5bdebf1e60779bb6cfab"},
}
LIMITS = {"queries": "equal"}  # one T in its documentation

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, M, H, D] -> [B, M, H, D]."""
    out, _ = upstream.module.naive_parallel_attn(q, k, v, scale=scale, causal=causal)
    return out


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse an upstream that is missing or altered."""
    return upstream.refusal()
