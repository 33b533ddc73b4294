"""From tensors to the kernel: the configuration, descriptors of TMA, and the number of programs.

No value of a tensor is read here, so nothing waits for the device and a CUDA graph can record it.
B batch, H query heads, G kv heads, M queries, N keys, D head dimension.
"""

import math
from dataclasses import dataclass
from functools import cache

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from assay.attention.sequence._fused_kernels import readable
from assay.attention.sequence.flash_hopper.forward import ROWS, flash_hopper_forward

DTYPES = (torch.bfloat16, torch.float16)
# Rows of 128 bytes, swizzled: what TMA writes and the matrix instructions read.
TILE_LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=4)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Tiles of 64 * `groups` queries, blocks of `block_n` keys, and buffers of both."""

    head_dim: int
    groups: int
    block_n: int
    stages: int
    query_stages: int
    ping_pong: bool

    @property
    def name(self) -> str:
        return f"d{self.head_dim}_m{self.block_m}_n{self.block_n}"

    @property
    def block_m(self) -> int:
        return ROWS.value * self.groups

    @property
    def constants(self) -> dict[str, int | bool]:
        """Compile-time constants of the kernel."""
        return {
            "HEAD_DIM": self.head_dim,
            "BLOCK_N": self.block_n,
            "STAGES": self.stages,
            "Q_STAGES": self.query_stages,
            "GROUPS": self.groups,
            "PING_PONG": self.ping_pong,
        }


# Measured on an H200: docs/kernels/hopper.md. Two stages of 128 keys fill shared memory with D 128.
_CONFIGS = (
    Config(head_dim=64, groups=3, block_n=128, stages=2, query_stages=2, ping_pong=True),
    Config(head_dim=64, groups=2, block_n=128, stages=3, query_stages=2, ping_pong=True),
    Config(head_dim=128, groups=2, block_n=128, stages=2, query_stages=1, ping_pong=False),
    Config(head_dim=256, groups=2, block_n=64, stages=2, query_stages=1, ping_pong=False),
)
BY_NAME = {config.name: config for config in _CONFIGS}
HEAD_DIMS = tuple(dict.fromkeys(config.head_dim for config in _CONFIGS))
# Tiles of 192 rows waste up to half of the last tile, and of the blocks at the diagonal.
_ROWS_FOR_THREE_GROUPS = 2048


def choose(head_dim: int, queries: int, pinned: str | None = None) -> Config:
    """The configuration for a head dimension and number of queries, or the pinned one."""
    if pinned is not None:
        if pinned not in BY_NAME:
            raise ValueError(
                f"flash_hopper has no configuration {pinned!r}; it has {', '.join(BY_NAME)}"
            )
        if BY_NAME[pinned].head_dim != head_dim:
            raise ValueError(
                f"configuration {pinned} does not fit head dimension {head_dim}; pin another, or "
                "none"
            )
        return BY_NAME[pinned]
    fitting = [config for config in _CONFIGS if config.head_dim == head_dim]
    return fitting[-1] if queries < _ROWS_FOR_THREE_GROUPS else fitting[0]


def empty_results(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [B, H, M, D], laid out as q is if its rows are whole, and normaliser [B, H, M]."""
    out = torch.empty_like(q)
    if out.stride(3) != 1:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    return out, q.new_empty(q.shape[:3], dtype=torch.float32)


def run_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    scale: float,
    pinned: str | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and normaliser, as `empty_results` lays them out."""
    out, lse = empty_results(q)
    batch, heads, queries, head_dim = q.shape
    kv_heads, keys = k.shape[1:3]
    config = choose(head_dim, queries, pinned)
    if not out.numel():
        return out, lse
    if not keys:
        return out.zero_(), lse.fill_(-math.inf)
    tiles, pairs = triton.cdiv(queries, config.block_m), batch * heads
    processors = _processors(q.device)
    # Pairs of batch entry and head that are worked on together and share the L2 cache: few, but
    # enough for two tiles on every multiprocessor, so that the longest come first among many.
    section = min(pairs, max(4, triton.cdiv(2 * processors, tiles)))
    with torch.cuda.device_of(q):
        flash_hopper_forward[(min(processors, tiles * pairs),)](
            *(_descriptor(q, ROWS.value), *(_descriptor(x, config.block_n) for x in (k, v))),
            *(torch.zeros(1, dtype=torch.int32, device=q.device), out, lse, *out.stride()[:3]),
            *(queries, keys, heads, heads // kv_heads, tiles, pairs, section),
            scale * math.log2(math.e),
            CAUSAL=causal,
            **config.constants,
            num_warps=4,
        )
    return out, lse


def _descriptor(tensor: torch.Tensor, rows: int) -> TensorDescriptor:
    """TMA's view of [B, heads, rows, D]: it fetches `rows` at once, zeros beyond the last."""
    tensor = readable(tensor)
    shape = list(tensor.shape)
    # The step of a dimension of one element is never taken, but must be aligned all the same.
    steps = [step if n > 1 else shape[3] for n, step in zip(shape, tensor.stride(), strict=True)]
    return TensorDescriptor(tensor, shape, [*steps[:3], 1], [1, 1, rows, shape[3]], TILE_LAYOUT)


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
