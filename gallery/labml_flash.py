"""Flash attention of annotated_deep_learning_paper_implementations, in Triton."""

from functools import partial

import torch
from _interpreter import only_interpretable
from _upstream import Upstream

FRAMEWORK = "torch"
REQUIRES = ("triton",)
UPSTREAM = {
    "repository": "labmlai/annotated_deep_learning_paper_implementations",
    "commit": "e6b3c8a6a2cdae4071bcde1abeaaf9a2bc37bd53",
    "files": {"labml_nn/transformers/flash/__init__.py": "fe4b2990d5ab52a19719"},
}

upstream = Upstream(**UPSTREAM)
supports = partial(only_interpretable, upstream, most_scores=200_000)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return upstream.module.attention(q, k, v, causal, scale)
