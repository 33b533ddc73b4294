"""The summary of `torch_statistics` in one pass and one launch, for training that must not wait.

A program has some channels of one head and a stretch of the rows: no two write the same place and
nothing is added in an order that changes, so the same tensor gives the same bits. Rows are the
positions of all batch rows, one after another. c channels, r rows.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PART = 7  # numbers of a part, as `torch_statistics` has them
TILE = 4096  # numbers that a program reads at a time
WARPS = 8
MOST_CHANNELS = 32  # of a program: a line of memory in float32, half of one in bfloat16
PROGRAMS = 264  # two for each multiprocessor of a large GPU
_SPARE = 8  # numbers of a program behind its channels, of which PART are used
_LEAST_TILES = 2  # a program with fewer is not worth starting


@dataclass(eq=False)
class Plan:
    """How tensors of one shape, layout and dtype are summed up; made once, used in every step."""

    heads: int
    dim: int
    channels: int  # of a program
    blocks: int  # of channels, in each head
    stretches: int
    arguments: tuple[int, ...]
    _launch: Any = field(default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the summary."""
        return self.stretches, self.heads, self.blocks, self.channels + _SPARE

    def begin(self, whole: Tensor, summary: Tensor) -> None:
        """Sum up `whole` into `summary`, a part of memory that is `shape` long."""
        if self._launch is not None:
            self._launch(whole, summary, *self.arguments)
            return
        grid = (self.heads * self.blocks, self.stretches, 1)
        with torch.cuda.device_of(whole):
            compiled = _summarise[grid](whole, summary, *self.arguments, num_warps=WARPS)
        # Choosing among compiled kernels takes most of a launch, and here the choice is made.
        self._launch = compiled[grid] if compiled is not None else None


def plan_for(whole: Tensor) -> Plan:
    """Of a tensor [B, H, S, D] on a GPU."""
    aligned = whole.data_ptr() % 16 == 0  # kernels differ with it
    return _plan(whole.shape, whole.stride(), whole.dtype, whole.device, aligned)


@cache
def _plan(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    aligned: bool,
) -> Plan:
    batch, heads, length, dim = shape
    rows = batch * length
    channels = min(MOST_CHANNELS, triton.next_power_of_2(dim))
    tile_rows = TILE // channels
    blocks = triton.cdiv(dim, channels)
    stretches = min(
        triton.cdiv(PROGRAMS, heads * blocks), triton.cdiv(rows, _LEAST_TILES * tile_rows)
    )
    each = triton.cdiv(triton.cdiv(rows, stretches), tile_rows) * tile_rows
    stretches = triton.cdiv(rows, each)
    arguments = (rows, length, dim, each, *strides, blocks, channels, tile_rows, _SPARE)
    return Plan(heads, dim, channels, blocks, stretches, arguments)


@triton.jit
def _tile(base, r, c, last, length, dim, stride_b, stride_s):  # noqa: ANN001
    """Values of some rows in float32 and which of them are finite; what is not there is not."""
    there = (r[:, None] < last) & (c[None, :] < dim)
    row = (r // length).to(tl.int64) * stride_b + (r % length).to(tl.int64) * stride_s
    x = tl.load(base + row[:, None], mask=there, other=float("inf")).to(tl.float32)
    finite = tl.abs(x) < float("inf")
    return tl.where(finite, x, 0.0), finite


@triton.jit
def _summarise(
    x_ptr,  # noqa: ANN001
    summary_ptr,  # noqa: ANN001
    all_rows,  # noqa: ANN001
    length,  # noqa: ANN001
    dim,  # noqa: ANN001
    rows,  # noqa: ANN001
    stride_b,  # noqa: ANN001
    stride_h,  # noqa: ANN001
    stride_s,  # noqa: ANN001
    stride_d,  # noqa: ANN001
    blocks,  # noqa: ANN001
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    SPARE: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    stretch = tl.program_id(1)
    first_c = (program % blocks) * CHANNELS
    c = first_c + tl.arange(0, CHANNELS)
    first = stretch * rows
    last = tl.minimum(first + rows, all_rows)
    base = x_ptr + (program // blocks).to(tl.int64) * stride_h
    base += c[None, :].to(tl.int64) * stride_d

    # Near the mean, so that squares of distances from it lose nothing.
    x, finite = _tile(base, first + tl.arange(0, ROWS), c, last, length, dim, stride_b, stride_s)
    pivot = tl.sum(x) / tl.maximum(tl.sum(finite.to(tl.int32)), 1)
    low = tl.full((ROWS, CHANNELS), float("inf"), tl.float32)
    high = tl.full((ROWS, CHANNELS), -float("inf"), tl.float32)
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    squares = tl.zeros((ROWS, CHANNELS), tl.float32)
    counts = tl.zeros((ROWS, CHANNELS), tl.int32)  # finite ones, and zeros in the upper half
    for start in range(first, last, ROWS):
        r = start + tl.arange(0, ROWS)
        x, finite = _tile(base, r, c, last, length, dim, stride_b, stride_s)
        low = tl.where(finite, tl.minimum(low, x), low)
        high = tl.where(finite, tl.maximum(high, x), high)
        distance = tl.where(finite, x - pivot, 0.0)
        total += distance
        squares += distance * distance
        counts += tl.where(finite, tl.where(x == 0.0, 65537, 1), 0)

    least = tl.min(low, axis=0)
    largest = tl.max(high, axis=0)
    sizes = tl.where(largest >= least, tl.maximum(tl.abs(least), tl.abs(largest)), 0.0)
    count = tl.sum(counts & 65535)
    zeros = tl.sum(counts >> 16)
    seen = (last - first) * tl.minimum(CHANNELS, dim - first_c)
    distances = tl.sum(total)
    mean = distances / tl.maximum(count, 1)
    place = summary_ptr + (stretch * tl.num_programs(0) + program) * (CHANNELS + SPARE)
    tl.store(place + tl.arange(0, CHANNELS), sizes)
    tl.store(place + CHANNELS, count.to(tl.float32))
    tl.store(place + CHANNELS + 1, (seen - count).to(tl.float32))
    tl.store(place + CHANNELS + 2, zeros.to(tl.float32))
    tl.store(place + CHANNELS + 3, tl.min(least, axis=0))
    tl.store(place + CHANNELS + 4, tl.max(largest, axis=0))
    tl.store(place + CHANNELS + 5, pivot + mean)
    tl.store(place + CHANNELS + 6, tl.sum(squares) - distances * mean)
