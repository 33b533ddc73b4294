"""Plain attention through torch.compile: the same operations as eager, fused where torch can.

Each combination of shapes, dtype and mask is compiled on its own and as one graph, and raises where
that cannot be done, so that what ran is always what was compiled.
"""

from collections.abc import Callable
from functools import lru_cache

import torch

from assay.attention.sequence import eager
from assay.attention.sequence._torch_compile import compile_alone
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
KERNELS = {"cuda": "triton"}
IMPORTS_LATER = ("assay.frameworks.torch.inductor_ahead",)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]; memory grows with M x N."""
    return _compiled(q.shape, k.shape, q.dtype, causal, scale)(q, k, v)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse a CPU, where compiling each shape would take longer than what it is used for."""
    if not host.accelerators:
        return "on a CPU torch.compile takes half a minute for each shape; use eager, or a GPU"
    return None


@lru_cache(maxsize=128)
def _compiled(
    q_shape: torch.Size, k_shape: torch.Size, dtype: torch.dtype, causal: bool, scale: float
) -> Callable[..., torch.Tensor]:
    """`call(q, k, v)` for tensors of these shapes; compiled when it is first called."""

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return eager.attention(q, k, v, causal=causal, scale=scale)

    return compile_alone(call, "eager")
