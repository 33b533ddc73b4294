"""Summary of a tensor, as `statistics` lays it out, in one pass and one launch.

A program reads some channels of one head over a stretch of the rows. No two programs write the same
place and nothing is added in an order that changes, so the same tensor gives the same bits. Rows
are the positions of all batch rows, one after another.
"""

# ruff: noqa: ANN001

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 4096  # values that a program reads at a time
WARPS = 8
MOST_CHANNELS = 32  # per program: a line of memory in float32, half of one in bfloat16
PROGRAMS = 264  # two for each multiprocessor of a large GPU
_SPARE = 8  # numbers of a program after its channels, of which statistics.PART are used
_LEAST_TILES = 2  # a program with fewer is not worth starting


@dataclass(eq=False)
class SummaryKernel:
    """Launch of the kernel for tensors of one shape, layout and dtype; made once."""

    heads: int
    dim: int
    channels: int  # of a program
    blocks: int  # of channels, in each head
    stretches: int
    arguments: tuple[int, ...]
    _launch: Any = field(default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a summary."""
        return self.stretches, self.heads, self.blocks, self.channels + _SPARE

    def launch(self, tensor_BHSD: Tensor, summary: Tensor) -> None:
        """Summarise a tensor into float32 memory of `shape`."""
        if self._launch is not None:
            self._launch(tensor_BHSD, summary, *self.arguments)
            return
        grid = (self.heads * self.blocks, self.stretches, 1)
        with torch.cuda.device_of(tensor_BHSD):
            compiled = _summarise[grid](tensor_BHSD, summary, *self.arguments, num_warps=WARPS)
        # Choosing among compiled kernels takes most of a launch, and here the choice is made.
        self._launch = compiled[grid] if compiled is not None else None


def kernel_for(tensor_BHSD: Tensor) -> SummaryKernel:
    """The launch that serves a tensor on a GPU."""
    aligned = tensor_BHSD.data_ptr() % 16 == 0  # compiled kernels differ with it
    shape, strides = tensor_BHSD.shape, tensor_BHSD.stride()
    return _kernel(shape, strides, tensor_BHSD.dtype, tensor_BHSD.device, aligned)


@cache
def _kernel(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    aligned: bool,
) -> SummaryKernel:
    batch, heads, length, dim = shape
    rows = batch * length
    channels = min(MOST_CHANNELS, triton.next_power_of_2(dim))
    tile_rows = TILE // channels
    blocks = triton.cdiv(dim, channels)
    stretches = min(
        triton.cdiv(PROGRAMS, heads * blocks), triton.cdiv(rows, _LEAST_TILES * tile_rows)
    )
    stretch_rows = triton.cdiv(triton.cdiv(rows, stretches), tile_rows) * tile_rows
    stretches = triton.cdiv(rows, stretch_rows)
    arguments = (rows, length, dim, stretch_rows, *strides, blocks, channels, tile_rows, _SPARE)
    return SummaryKernel(heads, dim, channels, blocks, stretches, arguments)


@triton.jit
def _load_tile(base, r, c, end_row, length, dim, stride_b, stride_s):
    """Values in float32 and which of them are finite, both [ROWS, CHANNELS]; what lies outside of
    the stretch or the head is not finite. base [1, CHANNELS] of pointers, r [ROWS], c [CHANNELS].
    """
    inside = (r[:, None] < end_row) & (c[None, :] < dim)  # [ROWS, CHANNELS]
    # [ROWS]
    offset = (r // length).to(tl.int64) * stride_b + (r % length).to(tl.int64) * stride_s
    # [ROWS, CHANNELS]
    x = tl.load(base + offset[:, None], mask=inside, other=float("inf")).to(tl.float32)
    finite = tl.abs(x) < float("inf")  # [ROWS, CHANNELS]
    return tl.where(finite, x, 0.0), finite


@triton.jit
def _summarise(
    x_ptr,  # [B, H, S, D] of any strides
    summary_ptr,  # float32 [stretches, H, blocks, CHANNELS + SPARE]
    all_rows,  # B * S
    length,  # S
    dim,  # D
    stretch_rows,
    stride_b,
    stride_h,
    stride_s,
    stride_d,
    blocks,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    SPARE: tl.constexpr,
) -> None:
    program = tl.program_id(0)  # head * blocks + block
    stretch = tl.program_id(1)
    first_c = (program % blocks) * CHANNELS
    c = first_c + tl.arange(0, CHANNELS)  # [CHANNELS]
    first_row = stretch * stretch_rows
    end_row = tl.minimum(first_row + stretch_rows, all_rows)
    base = x_ptr + (program // blocks).to(tl.int64) * stride_h
    base += c[None, :].to(tl.int64) * stride_d  # [1, CHANNELS]

    # Near the mean, so that squares of distances from it lose nothing.
    r = first_row + tl.arange(0, ROWS)  # [ROWS]
    x, finite = _load_tile(base, r, c, end_row, length, dim, stride_b, stride_s)
    pivot = tl.sum(x) / tl.maximum(tl.sum(finite.to(tl.int32)), 1)
    low = tl.full((ROWS, CHANNELS), float("inf"), tl.float32)
    high = tl.full((ROWS, CHANNELS), -float("inf"), tl.float32)
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    squares = tl.zeros((ROWS, CHANNELS), tl.float32)
    counts = tl.zeros((ROWS, CHANNELS), tl.int32)  # finite values, and zeros in the upper half
    for start in range(first_row, end_row, ROWS):
        r = start + tl.arange(0, ROWS)  # [ROWS]
        # [ROWS, CHANNELS], both
        x, finite = _load_tile(base, r, c, end_row, length, dim, stride_b, stride_s)
        low = tl.where(finite, tl.minimum(low, x), low)
        high = tl.where(finite, tl.maximum(high, x), high)
        distance = tl.where(finite, x - pivot, 0.0)  # [ROWS, CHANNELS]
        total += distance
        squares += distance * distance
        counts += tl.where(finite, tl.where(x == 0.0, 65537, 1), 0)

    least = tl.min(low, axis=0)  # [CHANNELS]
    largest = tl.max(high, axis=0)  # [CHANNELS]
    # [CHANNELS]
    maxima = tl.where(largest >= least, tl.maximum(tl.abs(least), tl.abs(largest)), 0.0)
    count = tl.sum(counts & 65535)
    zeros = tl.sum(counts >> 16)
    values = (end_row - first_row) * tl.minimum(CHANNELS, dim - first_c)
    distances = tl.sum(total)
    mean = distances / tl.maximum(count, 1)
    # [CHANNELS + SPARE], of this program
    out_ptr = summary_ptr + (stretch * tl.num_programs(0) + program) * (CHANNELS + SPARE)
    tl.store(out_ptr + tl.arange(0, CHANNELS), maxima)
    tl.store(out_ptr + CHANNELS, count.to(tl.float32))
    tl.store(out_ptr + CHANNELS + 1, (values - count).to(tl.float32))
    tl.store(out_ptr + CHANNELS + 2, zeros.to(tl.float32))
    tl.store(out_ptr + CHANNELS + 3, tl.min(least, axis=0))
    tl.store(out_ptr + CHANNELS + 4, tl.max(largest, axis=0))
    tl.store(out_ptr + CHANNELS + 5, pivot + mean)
    tl.store(out_ptr + CHANNELS + 6, tl.sum(squares) - distances * mean)
