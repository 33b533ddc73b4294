"""From tensors to kernels: outputs are allocated, configurations chosen, programs counted.

No value of a tensor is read here, so nothing waits for the device and a CUDA graph can record it.
B batch, H query heads, G kv heads, M queries, N keys, D head dimension.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton

from assay.attention.sequence.flash2_triton.configs import (
    DELTA,
    INTERPRETER,
    KernelConfig,
    Target,
    choose,
    padded_head_dim,
)
from assay.attention.sequence.flash2_triton.delta import delta_kernel
from assay.attention.sequence.flash2_triton.dkdv import dkdv_kernel
from assay.attention.sequence.flash2_triton.dq import dq_kernel
from assay.attention.sequence.flash2_triton.forward import forward_kernel

INTERPRETED = not isinstance(forward_kernel, triton.runtime.JITFunction)
# What heads worked on at the same time may read: it should stay in L2, 50 MB on an H200.
_CACHED_BYTES = 32 * 2**20


@dataclass(frozen=True)
class CallOptions:
    """Options that a call and its backward share, in the order of the operators' schema."""

    causal: bool
    scale: float
    window: int | None = None
    lengths: torch.Tensor | None = None  # [B]
    cu_q: torch.Tensor | None = None  # [sequences + 1]
    cu_k: torch.Tensor | None = None  # [sequences + 1]
    config: str | None = None  # pins the configuration of one kernel

    @property
    def sequences(self) -> int | None:
        """Number of packed sequences."""
        return None if self.cu_q is None else self.cu_q.shape[0] - 1

    @property
    def scale_log2(self) -> float:
        """The scale of scores whose exponentials are powers of two."""
        return self.scale * math.log2(math.e)


def run_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: CallOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [B, H, M, D], laid out as q is, and normaliser [B, H, M]."""
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    _launch("forward", forward_kernel, (q, k, v, out, lse), (options.scale_log2,), options)
    return out, lse


def run_delta(
    grad_out: torch.Tensor, grad_lse: torch.Tensor | None, out: torch.Tensor, lse: torch.Tensor
) -> torch.Tensor:
    """The shift of the weights' gradients, float32 [B, H, M]."""
    batch, heads, rows, dim = out.shape
    delta = torch.empty_like(lse)
    tiles = triton.cdiv(rows, DELTA.block_m)
    if programs := batch * heads * tiles:
        with torch.cuda.device_of(out):
            delta_kernel[(programs,)](
                *(out, grad_out, lse, None if grad_lse is None else grad_lse.contiguous(), delta),
                *(*out.stride(), *grad_out.stride()),
                *(rows, heads, tiles),
                HEAD_DIM=dim,
                BLOCK_M=DELTA.block_m,
                BLOCK_D=padded_head_dim(dim),
                num_warps=DELTA.warps,
                num_stages=DELTA.stages,
            )
    return delta


def run_dkdv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad_out: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    options: CallOptions,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of keys and values, [B, G, N, D]."""
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    tensors = (q, k, v, grad_out, lse, delta, dk, dv)
    _launch("dkdv", dkdv_kernel, tensors, (options.scale, options.scale_log2), options)
    return dk, dv


def run_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad_out: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    options: CallOptions,
) -> torch.Tensor:
    """Gradient of queries, [B, H, M, D]."""
    dq = torch.empty_like(q)
    tensors = (q, k, v, grad_out, lse, delta, dq)
    _launch("dq", dq_kernel, tensors, (options.scale, options.scale_log2), options)
    return dq


def _launch(
    name: str,
    kernel: Any,
    tensors: tuple[torch.Tensor, ...],
    scales: tuple[float, ...],
    options: CallOptions,
) -> None:
    """Run a kernel on `tensors`, of which q and k are the first two.

    The kernels' arguments are tensors, masks, strides of all [B, heads, rows, D], the integers
    from M to search_steps, scales and compile-time constants.
    """
    q, k = tensors[:2]
    config = _choose(name, q, options.config)
    # A program owns a tile of one side and visits tiles of the other.
    owned, visited, block = q, k, config.block_m
    if name == "dkdv":
        owned, visited, block = k, q, config.block_n
    pairs, rows = owned.shape[0] * owned.shape[1], owned.shape[2]
    tiles, search_steps = triton.cdiv(rows, block), None
    if options.sequences is not None:  # see tiles.packed_sequence
        tiles, search_steps = rows // block + options.sequences, options.sequences.bit_length()
    if not tiles * pairs:
        return
    queries, keys, heads = q.shape[2], k.shape[2], q.shape[1]
    window = None if options.window is None else min(options.window, queries + keys)
    # k and v, or q and dO, of the pairs that are worked on together; a group's heads share them.
    bytes_per_pair = 2 * visited.shape[2] * visited.shape[3] * visited.element_size()
    read_bytes = bytes_per_pair * visited.shape[1] // owned.shape[1]
    section = max(1, min(pairs, _CACHED_BYTES // max(1, read_bytes)))
    with torch.cuda.device_of(q):
        kernel[(tiles * pairs,)](
            *(*tensors, options.lengths, options.cu_q, options.cu_k),
            *(step for tensor in tensors if tensor.dim() == 4 for step in tensor.stride()),
            *(queries, keys, heads, heads // k.shape[1], tiles, pairs, section, window),
            *(options.sequences, search_steps),
            *scales,
            HEAD_DIM=q.shape[3],
            CAUSAL=options.causal,
            # Without tensor cores a mask costs little, and two loops compile for twice as long.
            SPLIT=q.dtype != torch.float32,
            BLOCK_M=config.block_m,
            BLOCK_N=config.block_n,
            BLOCK_D=padded_head_dim(q.shape[3]),
            num_warps=config.warps,
            num_stages=config.stages,
        )


def _choose(kernel: str, q: torch.Tensor, config: str | None) -> KernelConfig:
    bits = 8 * q.element_size()
    target = INTERPRETER if INTERPRETED else target_of(q.device)
    return choose(kernel, bits=bits, head_dim=q.shape[3], target=target, pinned=config)


@cache
def target_of(device: torch.device) -> Target:
    """The target that kernels are compiled for on a GPU."""
    properties = torch.cuda.get_device_properties(device)
    if torch.version.hip:
        return Target(
            name=properties.gcnArchName.partition(":")[0],
            backend="hip",
            shared_bytes=properties.shared_memory_per_block,
            warp_threads=properties.warp_size,
        )
    return Target(
        name=f"sm_{properties.major}{properties.minor}",
        backend="cuda",
        shared_bytes=properties.shared_memory_per_block_optin,
    )
