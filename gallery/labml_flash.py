"""Flash attention of annotated_deep_learning_paper_implementations, in Triton."""

from functools import cache
from types import ModuleType

import torch
from _interpreter import interpreted
from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
REQUIRES = ("triton",)
UPSTREAM = {
    "repository": "labmlai/annotated_deep_learning_paper_implementations",
    "commit": "e6b3c8a6a2cdae4071bcde1abeaaf9a2bc37bd53",
    "files": {"labml_nn/transformers/flash/__init__.py": "fe4b2990d5ab52a19719"},
}

upstream = Upstream(**UPSTREAM)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return _module().attention(q, k, v, causal, scale)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what the interpreter cannot show."""
    return upstream.refusal() or interpreted(spec, host, most_scores=200_000)


@cache
def _module() -> ModuleType:
    return upstream.load()
