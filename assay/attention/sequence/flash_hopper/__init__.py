"""FlashAttention-3's design in Gluon, for Hopper GPUs: the forward; flash2_triton's backward.

A warp that loads by TMA, warpgroups that multiply and take exponentials at the same time: see
forward.py. For bfloat16 and float16, head dimensions of 64, 128 and 256, any length and grouped
heads. Gradients come from flash2_triton's kernels, given this forward's output and normaliser.
"""

import torch

from assay.attention.sequence._fused_kernels import nvidia_refusal
from assay.attention.sequence.flash_hopper.launch import BY_NAME, DTYPES, HEAD_DIMS
from assay.attention.sequence.flash_hopper.operator import flash_hopper
from assay.attention.tensor_bytes import Held, row_statistic_bytes, tiled_bytes
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
REQUIRES = ("triton",)
ACCEPTS = ("lse",)
LIMITS = {"dtypes": ["float16", "bfloat16"], "head_dims": [64, 128, 256]}
KERNELS = {"cuda": "^flash_hopper_forward"}
CONFIGS = tuple(BY_NAME)
HOPPER = (9, 0)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    lse: bool = False,
    config: str | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D], or (output, normaliser [B, H, M]).

    Differentiable in q, k and v, also through the normaliser. `config` pins the configuration.
    """
    _check(q, k, v, scale)
    out, normaliser = flash_hopper(q, k, v, causal, scale, config)
    return (out, normaliser) if lse else out


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """The reason why a workload cannot run on a host; None if it can."""
    dtypes = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
    if refusal := nvidia_refusal(spec, host, dtypes=dtypes, head_dims=HEAD_DIMS):
        return refusal
    capability = torch.cuda.get_device_capability(host.accelerators[0].label)
    if capability != HOPPER:
        return (
            f"it is written for compute capability 9.0 (Hopper), not {capability[0]}."
            f"{capability[1]}; flash2_triton runs here"
        )
    return None


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> Held:
    """Bytes above the inputs: what a tiled kernel must keep, and delta in the backward."""
    held = tiled_bytes(spec, training=training)
    return held | ({"delta": row_statistic_bytes(spec)} if training else {})


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> None:
    """Refuse what the kernel would get wrong."""
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape:
        raise ValueError(f"{shapes}: wanted q [B, H, M, D] and k, v [B, G, N, D]")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{shapes}: batch and head dimension must be the same, and the query heads a multiple "
            "of the kv heads"
        )
    if q.shape[3] not in HEAD_DIMS or q.dtype not in DTYPES:
        raise ValueError(
            f"{q.dtype} with head dimension {q.shape[3]}: wanted bfloat16 or float16 and one of "
            f"{', '.join(map(str, HEAD_DIMS))}; flash2_triton takes others"
        )
    if k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError(f"q {q.dtype}, k {k.dtype}, v {v.dtype}: wanted the same for all three")
    if not q.is_cuda or k.device != q.device or v.device != q.device:
        raise ValueError(f"q is on {q.device}, k on {k.device}, v on {v.device}: wanted one GPU")
    if not scale > 0:
        raise ValueError(f"scale must be positive, not {scale}")
