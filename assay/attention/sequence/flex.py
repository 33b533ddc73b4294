"""torch's FlexAttention, compiled for each workload: a Triton kernel on a GPU, C++ on a CPU.

Every combination of shapes, dtype, device, mask and scale is compiled on its own and as one graph,
so that torch's limit on recompilations is not reached, and raises if it is: beyond it torch would
silently compute the whole score matrix instead. There is no backward pass on a CPU.
"""

import shutil
from collections.abc import Callable
from functools import lru_cache

import torch

from assay.attention.sequence._torch_compile import compile_alone
from assay.attention.sequence._visibility import within_reach
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
ACCEPTS = ("window",)
BACKWARD = "gpu"
KERNELS = {"cuda": "triton_tem|flex"}
IMPORTS_LATER = ("assay.frameworks.torch.inductor_ahead",)

SMALLEST_GPU_HEAD_DIM = 16  # of Triton's tl.dot; others are padded to a power of two within it


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    call = _compiled(q.shape, k.shape, q.dtype, q.device, causal, scale, window)
    return call(q, k, v)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what FlexAttention's code generators cannot do."""
    if host.accelerators:
        if spec.head_dim < SMALLEST_GPU_HEAD_DIM:
            return (
                f"head_dim {spec.head_dim} is below {SMALLEST_GPU_HEAD_DIM}, FlexAttention's least"
            )
        return None
    if not any(shutil.which(compiler) for compiler in ("g++", "clang++", "c++")):
        return "on a CPU torch.compile needs a C++ compiler, and there is none on the PATH"
    capability = torch.backends.cpu.get_cpu_capability()
    if not capability.startswith("AVX"):  # torch 2.11 and 2.13
        return f"on a CPU FlexAttention is compiled for AVX2 alone; torch has {capability} here"
    return None


@lru_cache(maxsize=128)
def _compiled(
    q_shape: torch.Size,
    k_shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    causal: bool,
    scale: float,
    window: int | None,
) -> Callable[..., torch.Tensor]:
    """`call(q, k, v)` for tensors of these shapes; compiled when it is first called."""
    # Imported here because it loads torch's compiler.
    from torch.nn.attention.flex_attention import flex_attention

    block_mask = _block_mask(q_shape[2], k_shape[2], device, causal, window)
    grouped = q_shape[1] != k_shape[1]
    # For few queries torch 2.11 would take its decoding kernel, which has no configuration for some
    # shapes in float32 and then fails to compile.
    options = {"FORCE_USE_FLEX_ATTENTION": True} if device.type == "cuda" else None

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(
            q, k, v, block_mask=block_mask, scale=scale, enable_gqa=grouped, kernel_options=options
        )

    return compile_alone(call, "flex")


@lru_cache(maxsize=128)
def _block_mask(
    queries: int, keys: int, device: torch.device, causal: bool, window: int | None
) -> object | None:
    """The blocks of the score matrix that are computed; None for all of it."""
    if not causal and window is None:
        return None
    from torch.nn.attention.flex_attention import create_block_mask

    shift = keys - queries

    def visible(
        batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        return within_reach(query + shift - key, causal=causal, window=window)

    return create_block_mask(visible, None, None, queries, keys, device=device)
