"""The summary of `torch_statistics` in one pass and one launch, for training that must not wait.

A program has some channels of one head and a stretch of the rows: no two write the same place and
nothing is added in an order that changes, so the same tensor gives the same bits. Rows are the
positions of all batch rows, one after another. c channels, r rows.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from assay.capture.torch_statistics import PART, Finish, joined
from assay.workloads.manifest import Statistics

CHANNELS = 16  # of a program: 32 bytes of a row in bfloat16, the least that memory hands out
ROWS = 128  # that a program reads at a time
PROGRAMS = 512  # about as many as keep a large GPU busy
WIDTH = tl.constexpr(32)  # numbers of a program, of which CHANNELS + PART are used
_STRETCH = 4 * ROWS  # a program with fewer rows is not worth starting


def begun(whole: Tensor) -> tuple[Tensor, Finish]:
    """See `torch_statistics.begun`; `whole` is [B, H, S, D] on a GPU."""
    batch, heads, length, dim = whole.shape
    blocks = triton.cdiv(dim, CHANNELS)
    stretches = min(triton.cdiv(PROGRAMS, heads * blocks), triton.cdiv(batch * length, _STRETCH))
    summary = torch.empty(
        (stretches, heads, blocks, WIDTH.value), dtype=torch.float32, device=whole.device
    )
    rows = triton.cdiv(triton.cdiv(batch * length, stretches), ROWS) * ROWS
    with torch.cuda.device_of(whole):
        _summarise[(heads * blocks, stretches)](
            whole,
            summary,
            batch * length,
            length,
            dim,
            rows,
            *whole.stride(),
            blocks,
            CHANNELS,
            ROWS,
        )
    return summary, lambda found: finished(found, dim)


def finished(summary: Tensor, dim: int) -> Statistics:
    """Statistics of a summary on the host."""
    stretches, heads, blocks, _ = summary.shape
    numbers = summary.numpy()
    sizes = numbers[..., :CHANNELS].reshape(stretches, heads, blocks * CHANNELS)[..., :dim]
    parts = numbers[..., CHANNELS : CHANNELS + PART].reshape(-1, PART)
    parts = parts[parts[:, 0] + parts[:, 1] > 0]
    return joined(sizes.reshape(stretches, heads * dim), parts)


@triton.jit
def _tile(base, r, c, last, length, dim, stride_b, stride_s):  # noqa: ANN001
    """Values of some rows in float32, which of them are finite, and which are there at all."""
    there = (r[:, None] < last) & (c[None, :] < dim)
    row = (r // length).to(tl.int64) * stride_b + (r % length).to(tl.int64) * stride_s
    x = tl.load(base + row[:, None], mask=there, other=0.0).to(tl.float32)
    finite = there & (tl.abs(x) < float("inf"))
    return tl.where(finite, x, 0.0), finite, there


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
) -> None:
    program = tl.program_id(0)
    stretch = tl.program_id(1)
    head = program // blocks
    c = (program % blocks) * CHANNELS + tl.arange(0, CHANNELS)
    first = stretch * rows
    last = tl.minimum(first + rows, all_rows)
    base = x_ptr + head.to(tl.int64) * stride_h + c[None, :].to(tl.int64) * stride_d

    # Near the mean, so that squares of distances from it lose nothing.
    x, finite, _ = _tile(base, first + tl.arange(0, ROWS), c, last, length, dim, stride_b, stride_s)
    pivot = tl.sum(x) / tl.maximum(tl.sum(finite.to(tl.int32)), 1)
    low = tl.full((ROWS, CHANNELS), float("inf"), tl.float32)
    high = tl.full((ROWS, CHANNELS), -float("inf"), tl.float32)
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    squares = tl.zeros((ROWS, CHANNELS), tl.float32)
    known = tl.zeros((ROWS, CHANNELS), tl.int32)
    zeros = tl.zeros((ROWS, CHANNELS), tl.int32)
    seen = tl.zeros((ROWS, CHANNELS), tl.int32)
    for start in range(first, last, ROWS):
        r = start + tl.arange(0, ROWS)
        x, finite, there = _tile(base, r, c, last, length, dim, stride_b, stride_s)
        low = tl.where(finite, tl.minimum(low, x), low)
        high = tl.where(finite, tl.maximum(high, x), high)
        distance = tl.where(finite, x - pivot, 0.0)
        total += distance
        squares += distance * distance
        known += finite.to(tl.int32)
        zeros += (finite & (x == 0.0)).to(tl.int32)
        seen += there.to(tl.int32)

    least = tl.min(low, axis=0)
    largest = tl.max(high, axis=0)
    sizes = tl.where(largest >= least, tl.maximum(tl.abs(least), tl.abs(largest)), 0.0)
    count = tl.sum(known)
    distances = tl.sum(total)
    mean = distances / tl.maximum(count, 1)
    place = summary_ptr + (stretch * tl.num_programs(0) + program) * WIDTH
    tl.store(place + tl.arange(0, CHANNELS), sizes)
    tl.store(place + CHANNELS, count.to(tl.float32))
    tl.store(place + CHANNELS + 1, (tl.sum(seen) - count).to(tl.float32))
    tl.store(place + CHANNELS + 2, tl.sum(zeros).to(tl.float32))
    tl.store(place + CHANNELS + 3, tl.min(least, axis=0))
    tl.store(place + CHANNELS + 4, tl.max(largest, axis=0))
    tl.store(place + CHANNELS + 5, pivot + mean)
    tl.store(place + CHANNELS + 6, tl.sum(squares) - distances * mean)
