"""parallel_attn of flash-linear-attention, in Triton."""

from functools import cache
from types import ModuleType

import torch
from _interpreter import interpreted
from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
REQUIRES = ("triton",)
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "fla-org/flash-linear-attention",
    "commit": "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
    "files": {"fla/ops/attn/parallel.py": "7409f5ce86b5ebc3083f"},
}
LIMITS = {"queries": "equal", "masks": "causal"}  # one T; full causal attention

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, M, H, D], k and v [B, M, G, D] -> [B, M, H, D]."""
    return _module().parallel_attn(q, k, v, scale=scale)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what the interpreter cannot show."""
    return upstream.refusal() or interpreted(spec, host, most_scores=10_000)


@cache
def _module() -> ModuleType:
    return upstream.load()
