"""Checks of what flash2_triton is called with: refusals with their reason.

Nothing here reads a tensor's values, so that torch.compile can trace it.
"""

import torch

from assay.attention.sequence.flash2_triton.configs import BY_KERNEL, choose
from assay.attention.sequence.flash2_triton.launch import INTERPRETED, target_of
from assay.host import Host
from assay.workloads.spec import DTYPES, WorkloadSpec

LARGEST_HEAD_DIM = 256
# The interpreter takes about 5 ms for a tile of 128 x 64 scores; more than these would be minutes.
MOST_INTERPRETED_SCORES = 2_200_000
MOST_INTERPRETED_ROWS = 1100

_COMPILED = (
    "the kernels are compiled for the GPU of this machine and cannot run on the CPU; set "
    "TRITON_INTERPRET=1 before starting to have them interpreted"
)
_DTYPES = tuple(getattr(torch, name) for name in DTYPES)
_BFLOAT16_INTERPRETED = (
    "Triton's interpreter multiplies the bits of bfloat16 as integers, so its results are wrong; "
    "use float32 or float16 on the CPU, or a GPU"
)


def check(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    lengths: torch.Tensor | None = None,
    window: int | None = None,
    cu_q: torch.Tensor | None = None,
    cu_k: torch.Tensor | None = None,
) -> None:
    """Refuse what the kernels would get wrong."""
    _check_inputs(q, k, v)
    if not scale > 0:
        raise ValueError(f"scale must be positive, not {scale}")
    if window is not None and window < 1:
        raise ValueError(f"window must be at least 1 (a query sees itself), not {window}")
    if lengths is not None:
        _check_integers("lengths", lengths, (q.shape[0],), q)
    if (cu_q is None) != (cu_k is None):
        raise ValueError("cu_seqlens are two arrays, of queries and of keys; one of them is None")
    if cu_q is not None and cu_k is not None:
        if q.shape[0] != 1 or lengths is not None:
            raise ValueError(
                "with cu_seqlens the batch is 1 and there are no lengths: give one packed batch, "
                "and shorter key sequences in cu_seqlens[1]"
            )
        _check_integers("cu_seqlens[0]", cu_q, (cu_q.shape[0],), q)
        _check_integers("cu_seqlens[1]", cu_k, (cu_q.shape[0],), q)


def _check_inputs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape:
        raise ValueError(f"{_shapes(q, k, v)}: wanted q [B, H, M, D] and k, v [B, G, N, D]")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{_shapes(q, k, v)}: batch and head dimension must be the same, and the query heads "
            "a multiple of the kv heads"
        )
    if not 1 <= q.shape[3] <= LARGEST_HEAD_DIM:
        raise ValueError(f"head dimension {q.shape[3]} is not within 1 .. {LARGEST_HEAD_DIM}")
    if q.dtype not in _DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError(
            f"q {q.dtype}, k {k.dtype}, v {v.dtype}: wanted one of {', '.join(DTYPES)} for all "
            "three"
        )
    if k.device != q.device or v.device != q.device:
        raise ValueError(
            f"q is on {q.device}, k on {k.device}, v on {v.device}: move them together"
        )
    if INTERPRETED and q.dtype == torch.bfloat16:
        raise ValueError(_BFLOAT16_INTERPRETED)
    if not INTERPRETED and not q.is_cuda:
        raise ValueError(f"q is on {q.device}: {_COMPILED}")


def _shapes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str:
    return f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"


def _check_integers(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], q: torch.Tensor
) -> None:
    if tensor.dtype not in (torch.int32, torch.int64) or tensor.shape != shape:
        raise ValueError(
            f"{name} is {tensor.dtype} {tuple(tensor.shape)}: wanted int32 {tuple(shape)}"
        )
    if tensor.device != q.device or not tensor.is_contiguous():
        raise ValueError(f"{name} must be contiguous and on {q.device}, where q is")


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """The reason why a workload cannot run on a host; None if it can."""
    if spec.head_dim > LARGEST_HEAD_DIM:
        return f"head dimension {spec.head_dim} is above {LARGEST_HEAD_DIM}"
    if INTERPRETED:
        return _too_much_to_interpret(spec)
    if not host.accelerators:
        return _COMPILED
    device = torch.device(host.accelerators[0].label)
    bits = 32 if spec.dtype == "float32" else 16
    try:
        for kernel in BY_KERNEL:
            choose(kernel, bits=bits, head_dim=spec.head_dim, target=target_of(device))
    except ValueError as error:
        return str(error)
    return None


def _too_much_to_interpret(spec: WorkloadSpec) -> str | None:
    rows = max(spec.query_length, spec.key_length)
    scores = spec.batch * spec.heads * spec.query_length * spec.key_length
    if rows > MOST_INTERPRETED_ROWS or scores > MOST_INTERPRETED_SCORES:
        return (
            f"{scores} scores over up to {rows} rows would take Triton's interpreter too long; it "
            f"takes {MOST_INTERPRETED_SCORES} scores and {MOST_INTERPRETED_ROWS} rows"
        )
    return None
