"""flash_attn_func of flash-attention's experimental Triton kernels.

A port: written for Triton 2, they ask tl.dot to transpose, which is a call of its own in Triton 3;
and without a GPU they cannot insist on one.
"""

from functools import partial

import torch
from _interpreter import only_interpretable
from _upstream import Upstream

FRAMEWORK = "torch"
REQUIRES = ("triton",)
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "Dao-AILab/flash-attention",
    "commit": "0251105a2fb19d2957484b7f023cd8c115286ced",
    "files": {"flash_attn/flash_attn_triton.py": "30420c057adf1916e164"},
}
LIMITS = {"dtypes": ["float16", "bfloat16"], "widest": 128, "groups": [1]}  # as it asserts
PORT = (
    ("tl.dot(q, k, trans_b=True)", "tl.dot(q, tl.trans(k))"),
    ("tl.dot(do, v, trans_b=True)", "tl.dot(do, tl.trans(v))"),
    ("tl.dot(p.to(do.dtype), do, trans_a=True)", "tl.dot(tl.trans(p.to(do.dtype)), do)"),
    ("tl.dot(ds, q, trans_a=True)", "tl.dot(tl.trans(ds), q)"),
    ("assert q.is_cuda and k.is_cuda and v.is_cuda", "assert q.device == k.device == v.device"),
)

upstream = Upstream(**UPSTREAM, port=PORT)
supports = partial(only_interpretable, upstream, most_scores=80_000)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]."""
    return upstream.module.flash_attn_func(q, k, v, None, causal, scale)
