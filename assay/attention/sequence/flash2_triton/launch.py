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
    Config,
    Target,
    choose,
    padded,
)
from assay.attention.sequence.flash2_triton.delta import delta_kernel
from assay.attention.sequence.flash2_triton.dkdv import dkdv_kernel
from assay.attention.sequence.flash2_triton.dq import dq_kernel
from assay.attention.sequence.flash2_triton.forward import forward_kernel

INTERPRETED = not isinstance(forward_kernel, triton.runtime.JITFunction)
# What heads worked on at the same time may read: it should stay in L2, 50 MB on an H200.
_CACHED_BYTES = 32 * 2**20


@dataclass(frozen=True, kw_only=True)
class Masking:
    """What is hidden from whom; None where nothing is."""

    causal: bool
    window: int | None = None
    lengths: torch.Tensor | None = None
    cu_q: torch.Tensor | None = None
    cu_k: torch.Tensor | None = None

    @property
    def sequences(self) -> int | None:
        """How many sequences are packed."""
        return None if self.cu_q is None else self.cu_q.shape[0] - 1


@dataclass(frozen=True, kw_only=True)
class Call:
    """What one call and its backward have in common."""

    scale: float
    masking: Masking
    config: str | None = None


def run_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, call: Call
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [B, H, M, D], laid out as q is, and normaliser [B, H, M]."""
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    chosen = _choose("forward", q, call.config)
    pairs = q.shape[0] * q.shape[1]
    read = 2 * _bytes_per_pair(k) * k.shape[1] // q.shape[1]  # heads of a group read the same
    sizes, programs = _sizes(q, k, call.masking, pairs, q.shape[2], chosen.block_m, read)
    _launch(
        forward_kernel,
        programs,
        (q, k, v, out, lse, *_mask_tensors(call.masking)),
        (*q.stride(), *k.stride(), *v.stride(), *out.stride()),
        (*sizes, call.scale * math.log2(math.e)),
        _constants(q, call.masking, chosen),
    )
    return out, lse


def run_delta(
    grad_out: torch.Tensor, grad_lse: torch.Tensor | None, out: torch.Tensor, lse: torch.Tensor
) -> torch.Tensor:
    """What weights' gradients are shifted by, float32 [B, H, M]."""
    batch, heads, rows, dim = out.shape
    delta = torch.empty_like(lse)
    tiles = triton.cdiv(rows, DELTA.block_m)
    _launch(
        delta_kernel,
        batch * heads * tiles,
        (out, grad_out, lse, None if grad_lse is None else grad_lse.contiguous(), delta),
        (*out.stride(), *grad_out.stride()),
        (rows, heads, tiles),
        {
            "HEAD_DIM": dim,
            "BLOCK_M": DELTA.block_m,
            "BLOCK_D": padded(dim),
            "num_warps": DELTA.warps,
            "num_stages": DELTA.stages,
        },
    )
    return delta


def run_dkdv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad_out: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    call: Call,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of keys and values, [B, G, N, D]."""
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    chosen = _choose("dkdv", q, call.config)
    pairs = k.shape[0] * k.shape[1]
    read = 2 * _bytes_per_pair(q) * q.shape[1] // k.shape[1]
    sizes, programs = _sizes(q, k, call.masking, pairs, k.shape[2], chosen.block_n, read)
    _launch(
        dkdv_kernel,
        programs,
        (q, k, v, grad_out, lse, delta, dk, dv, *_mask_tensors(call.masking)),
        (
            *(*q.stride(), *k.stride(), *v.stride(), *grad_out.stride()),
            *(*dk.stride(), *dv.stride()),
        ),
        (*sizes, call.scale, call.scale * math.log2(math.e)),
        _constants(q, call.masking, chosen),
    )
    return dk, dv


def run_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad_out: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    call: Call,
) -> torch.Tensor:
    """Gradient of queries, [B, H, M, D]."""
    dq = torch.empty_like(q)
    chosen = _choose("dq", q, call.config)
    pairs = q.shape[0] * q.shape[1]
    read = 2 * _bytes_per_pair(k) * k.shape[1] // q.shape[1]
    sizes, programs = _sizes(q, k, call.masking, pairs, q.shape[2], chosen.block_m, read)
    _launch(
        dq_kernel,
        programs,
        (q, k, v, grad_out, lse, delta, dq, *_mask_tensors(call.masking)),
        (*q.stride(), *k.stride(), *v.stride(), *grad_out.stride(), *dq.stride()),
        (*sizes, call.scale, call.scale * math.log2(math.e)),
        _constants(q, call.masking, chosen),
    )
    return dq


def _launch(
    kernel: Any,
    programs: int,
    tensors: tuple[torch.Tensor | None, ...],
    strides: tuple[int, ...],
    sizes: tuple[float | None, ...],
    constants: dict[str, Any],
) -> None:
    if programs:
        with torch.cuda.device_of(tensors[0]):
            kernel[(programs,)](*tensors, *strides, *sizes, **constants)


def _mask_tensors(masking: Masking) -> tuple[torch.Tensor | None, ...]:
    return masking.lengths, masking.cu_q, masking.cu_k


def _sizes(
    q: torch.Tensor,
    k: torch.Tensor,
    masking: Masking,
    pairs: int,
    rows: int,
    block: int,
    read_bytes: int,
) -> tuple[tuple[int | None, ...], int]:
    """The kernels' integers from M to search_steps, and the number of programs."""
    queries, keys, heads = q.shape[2], k.shape[2], q.shape[1]
    tiles, search_steps = triton.cdiv(rows, block), None
    if masking.sequences is not None:  # see tiles.sequence_of
        tiles, search_steps = rows // block + masking.sequences, masking.sequences.bit_length()
    window = None if masking.window is None else min(masking.window, queries + keys)
    section = max(1, min(pairs, _CACHED_BYTES // max(1, read_bytes)))
    group = heads // k.shape[1]
    sizes = (queries, keys, heads, group, tiles, pairs, section, window)
    return (*sizes, masking.sequences, search_steps), tiles * pairs


def _bytes_per_pair(tensor: torch.Tensor) -> int:
    return tensor.shape[2] * tensor.shape[3] * tensor.element_size()


def _constants(q: torch.Tensor, masking: Masking, chosen: Config) -> dict[str, Any]:
    return {
        "HEAD_DIM": q.shape[3],
        "CAUSAL": masking.causal,
        # Without tensor cores a mask costs little, and two loops compile for twice as long.
        "SPLIT": q.dtype != torch.float32,
        "BLOCK_M": chosen.block_m,
        "BLOCK_N": chosen.block_n,
        "BLOCK_D": padded(q.shape[3]),
        "num_warps": chosen.warps,
        "num_stages": chosen.stages,
    }


def _choose(kernel: str, q: torch.Tensor, config: str | None) -> Config:
    bits = 8 * q.element_size()
    target = INTERPRETER if INTERPRETED else target_of(q.device)
    return choose(kernel, bits=bits, head_dim=q.shape[3], target=target, pinned=config)


@cache
def target_of(device: torch.device) -> Target:
    """What the kernels are compiled for on a GPU."""
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
