"""torch's scaled_dot_product_attention with one backend, or with the one that torch picks.

A pinned backend is the only one allowed during the call, so torch raises where it cannot run.
What a backend can do depends on torch, cuDNN and the device, so torch's own check decides and
gives the reason. torch's `is_causal` is aligned top-left; where queries and keys differ in number,
flash and efficient attention are given torch's bottom-right bias, the others a mask.
B batch, H query heads, G kv heads, M queries, N keys, D head dimension.
"""

import warnings
from functools import lru_cache, partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from assay.attention.sequence._fused_kernels import readable, skip_fully_masked
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

_ON_CPU = (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION)
# Their GPU kernels know the bottom-right alignment; with a mask they are slower, or not run.
_BOTTOM_RIGHT = (None, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


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
    call = partial(_sdpa, causal=causal, scale=scale, backend=backend)
    if backend is None:
        return skip_fully_masked(call, q, k, v, causal=causal, dim=2)
    with sdpa_kernel([backend]):
        return skip_fully_masked(call, q, k, v, causal=causal, dim=2)


def refusal(spec: WorkloadSpec, host: Host, *, backend: SDPBackend) -> str | None:
    """The reason why torch will not run a workload with `backend`; None where it will."""
    if not host.accelerators and backend not in _ON_CPU:
        return f"torch has its {backend.name} kernel for GPUs only"
    if host.accelerators and not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU"
    device = torch.device("cuda" if host.accelerators else "cpu")
    dtype = getattr(torch, spec.dtype)
    queries = min(spec.query_length, spec.key_length) if spec.causal else spec.query_length
    # One row in memory stands for all: the question is about shapes, not values.
    row = torch.empty(spec.head_dim, dtype=dtype, device=device, requires_grad=True)
    q = row.expand(spec.batch, spec.heads, queries, -1)
    k = row.expand(spec.batch, spec.kv_heads, spec.key_length, -1)
    mask = None
    square = queries == spec.key_length
    if spec.causal and queries > 1 and not square and not _aligns(backend, device):
        mask = torch.empty(spec.key_length, dtype=torch.bool, device=device).expand(queries, -1)
    with sdpa_kernel([backend]), warnings.catch_warnings(record=True) as caught:
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
            return _reason([str(warning.message) for warning in caught], error, backend, device)
    return None


def _sdpa(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    backend: SDPBackend | None,
) -> torch.Tensor:
    """torch's call, for queries that each see a key."""
    if backend != SDPBackend.MATH:
        q, k, v = (readable(tensor) for tensor in (q, k, v))
    queries, keys = q.shape[2], k.shape[2]
    mask = None
    if causal and 1 < queries < keys:
        mask = _bottom_right_mask(queries, keys, q.device, backend)
    out = scaled_dot_product_attention(
        *(q, k, v),
        attn_mask=mask,
        # A single query stands at the last key and sees all.
        is_causal=causal and 1 < queries == keys,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    if out.requires_grad and out.is_cuda:
        # torch 2.11 keeps cuDNN's backward graphs by shape without the strides of dO, so that a
        # second dO of the same shape that lies otherwise would be misread.
        out.register_hook(torch.Tensor.contiguous)
    return out


def _aligns(backend: SDPBackend | None, device: torch.device) -> bool:
    return backend in _BOTTOM_RIGHT and device.type != "cpu"


def _bottom_right_mask(
    queries: int, keys: int, device: torch.device, backend: SDPBackend | None
) -> torch.Tensor:  # [M, N]
    if not _aligns(backend, device):
        return _boolean_mask(queries, keys, device)
    # Imported here because it loads torch's compiler, a second that other workloads do not owe.
    from torch.nn.attention.bias import causal_lower_right

    return causal_lower_right(queries, keys)


@lru_cache(maxsize=8)
def _boolean_mask(queries: int, keys: int, device: torch.device) -> torch.Tensor:  # [M, N]
    """True where query i sees key j <= i + N - M; built once for each shape."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def _reason(
    messages: list[str], error: RuntimeError, backend: SDPBackend, device: torch.device
) -> str:
    """torch's warnings about this backend, without headings and those about other backends."""
    sentences = [text.partition(" (Triggered internally")[0].strip() for text in messages]
    own = [s for s in sentences if not s.endswith("because:") and "runtime disabled" not in s]
    why = " ".join(dict.fromkeys(own)) or str(error).partition("\n")[0]
    return f"torch {torch.__version__} has no {backend.name} kernel on {device.type}: {why}"
