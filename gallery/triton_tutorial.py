"""The fused attention of Triton's tutorials (06), at v3.6.0."""

import os
from functools import cache, partial
from types import ModuleType
from unittest.mock import patch

import torch
from _interpreter import only_interpretable
from _upstream import Upstream

FRAMEWORK = "torch"
REQUIRES = ("triton",)
UPSTREAM = {
    "repository": "triton-lang/triton",
    "commit": "7c56a5e40f7fd928dfd5c72902d5def0097db73a",
    "files": {"python/tutorials/06-fused-attention.py": "c68fbf52dfaecc6213c9"},
}
# One N_CTX, whole blocks of 128 in its backward, one stride for all; its test is in float16.
LIMITS = {
    "dtypes": ["float16"],
    "lengths": 128,
    "queries": "equal",
    "groups": [1],
    "contiguous": True,
}

upstream = Upstream(**UPSTREAM)
supports = partial(only_interpretable, upstream, most_scores=600_000)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M, D] -> [B, H, M, D]."""
    return _module().attention(q, k, v, causal, scale, False)


@cache
def _module() -> ModuleType:
    with patch.dict(os.environ, PYTEST_VERSION=""):  # its switch for one configuration, untuned
        return upstream.load()
