"""torch's scaled_dot_product_attention with one backend, or with the one that torch picks.

A pinned backend is the only one allowed during the call, so torch raises where it cannot run.
What a backend can do depends on torch, cuDNN and the device: torch itself is asked, with its own
check and its own words. torch's `is_causal` is aligned top-left; where queries and keys differ in
number, flash and efficient attention are given torch's bottom-right bias, the others a mask.
"""

import warnings
from functools import lru_cache, partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from assay.attention.sequence._kernel_inputs import apart_from_blind, readable
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

_ON_CPU = (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION)
# Their GPU kernels know the bottom-right alignment; with a mask they are slower, or not run.
_ALIGNING = (None, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    backend: SDPBackend | None = None,
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    call = partial(_readable_backwards, causal=causal, scale=scale, backend=backend)
    if backend is None:
        return apart_from_blind(call, q, k, v, causal=causal, dim=2)
    with sdpa_kernel([backend]):
        return apart_from_blind(call, q, k, v, causal=causal, dim=2)


def refusal(spec: WorkloadSpec, host: Host, *, backend: SDPBackend) -> str | None:
    """Why torch will not run this workload with `backend`; None where it will."""
    if not host.accelerators and backend not in _ON_CPU:
        return f"torch has a {backend.name} kernel for GPUs only"
    if host.accelerators and not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU"
    device = torch.device("cuda" if host.accelerators else "cpu")
    dtype = getattr(torch, spec.dtype)
    seeing = min(spec.query_length, spec.key_length) if spec.causal else spec.query_length
    # One row in memory stands for all: the question is about shapes, not values.
    row = torch.empty(spec.head_dim, dtype=dtype, device=device, requires_grad=True)
    q = row.expand(spec.batch, spec.heads, seeing, -1)
    k = row.expand(spec.batch, spec.kv_heads, spec.key_length, -1)
    mask = None
    square = seeing == spec.key_length
    if spec.causal and seeing > 1 and not square and not _aligns(backend, device):
        mask = torch.empty(spec.key_length, dtype=torch.bool, device=device).expand(seeing, -1)
    with sdpa_kernel([backend]), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            torch._fused_sdp_choice(
                q,
                k,
                k,
                mask,
                is_causal=spec.causal and square,
                scale=spec.scale,
                enable_gqa=spec.heads != spec.kv_heads,
            )
        except RuntimeError as error:
            return _reason([str(warning.message) for warning in told], error, backend, device)
    return None


def _readable_backwards(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **how: Any
) -> torch.Tensor:
    """The same, whose backward is always given a contiguous dO: torch 2.11 keeps cuDNN's backward
    graphs by shape without the strides of dO, so that a second dO of the same shape that lies
    otherwise is misread."""
    out = _seeing(q, k, v, **how)
    if out.requires_grad and out.is_cuda:
        out.register_hook(torch.Tensor.contiguous)
    return out


def _seeing(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    backend: SDPBackend | None,
) -> torch.Tensor:
    """Where every query sees a key."""
    if backend != SDPBackend.MATH:
        q, k, v = (readable(tensor) for tensor in (q, k, v))
    call = partial(
        scaled_dot_product_attention, q, k, v, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    queries, keys = q.shape[2], k.shape[2]
    if not causal or queries == 1:  # a single query stands at the last key and sees all
        return call()
    if queries == keys:
        return call(is_causal=True)
    if not _aligns(backend, q.device):
        return call(attn_mask=_bottom_right(queries, keys, q.device))
    # Imported here because it loads torch's compiler, a second that other workloads do not owe.
    from torch.nn.attention.bias import causal_lower_right

    return call(attn_mask=causal_lower_right(queries, keys))


def _aligns(backend: SDPBackend | None, device: torch.device) -> bool:
    return backend in _ALIGNING and device.type != "cpu"


@lru_cache(maxsize=8)
def _bottom_right(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    """True where query i sees key j <= i + N - M, [M, N]; built once for each shape."""
    ones = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return ones.tril(keys - queries)


def _reason(told: list[str], error: RuntimeError, backend: SDPBackend, device: torch.device) -> str:
    """What torch said of this backend, without its headings and what it said of the others."""
    sentences = [text.partition(" (Triggered internally")[0].strip() for text in told]
    own = [s for s in sentences if not s.endswith("because:") and "runtime disabled" not in s]
    said = " ".join(dict.fromkeys(own)) or str(error).partition("\n")[0]
    return f"torch {torch.__version__} has no {backend.name} kernel on {device.type}: {said}"
