"""FlashInfer's batched prefill (package flashinfer-python), an inference library: no backward pass.

Its ragged form is given every sequence of the batch one after another. What it plans for a shape
is planned once. Its causal mask is bottom-right; with fewer keys than queries it refuses.
"""

from functools import lru_cache, partial
from typing import Any

import torch

from assay.attention.sequence._fused_kernels import nvidia_refusal, readable, skip_fully_masked
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
REQUIRES = ("flashinfer",)
LAYOUT = "BSHD"
BACKWARD = False

WORKSPACE_BYTES = 256 * 2**20  # partial sums of long sequences; its documentation gives half


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, M, H, D], k and v [B, N, G, D] -> [B, M, H, D]."""
    call = partial(_prefill, causal=causal, scale=scale)
    return skip_fully_masked(call, q, k, v, causal=causal, dim=1)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse head dimensions that its prefill kernels are not instantiated for."""
    return nvidia_refusal(spec, host, dtypes=("float16", "bfloat16"), head_dims=(64, 128, 256))


def _prefill(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """The library's call, for queries that each see a key."""
    wrapper = _planned_wrapper(q.shape, k.shape, q.dtype, q.device, causal, scale)
    # [B, S, heads, D] to [B * S, heads, D], a view of arrays that lie in this order.
    rows = (readable(tensor).flatten(0, 1).contiguous() for tensor in (q, k, v))
    return wrapper.run(*rows).view(q.shape)


@lru_cache(maxsize=8)
def _planned_wrapper(
    q_shape: torch.Size,
    k_shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    causal: bool,
    scale: float,
) -> Any:
    """FlashInfer's wrapper, planned for these shapes."""
    from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

    batch, queries, heads, dim = q_shape
    keys, kv_heads = k_shape[1:3]
    counts = torch.arange(batch + 1, dtype=torch.int32, device=device)
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(_workspace(device), "NHD")
    wrapper.plan(
        counts * queries,
        counts * keys,
        heads,
        kv_heads,
        dim,
        causal=causal,
        sm_scale=scale,
        q_data_type=dtype,
        kv_data_type=dtype,
    )
    return wrapper


@lru_cache(maxsize=1)
def _workspace(device: torch.device) -> torch.Tensor:
    """Scratch memory that all plans share; calls run one after another."""
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
