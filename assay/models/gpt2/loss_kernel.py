"""Cross entropy of rows of logits and its gradient, written over them: a Triton kernel.

A row is read twice and written once. A thread has pieces of eight neighbours and a largest number
and a sum of its own, so that a piece costs one power for each logit and one for the sum before it.
Programs so few that their rows stay in the L2 cache between the two readings were slower, 2.4 to
4.8 ms in the place of 2.3 for 32,768 rows of 50,304.
"""

import torch
import triton
import triton.language as tl

_PIECES = 1024  # of eight logits, that a program has in registers
_WARPS = 16


def turn_to_slopes(
    logits: torch.Tensor, targets: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """The loss of each row of logits [N, V], float32 [N]; the logits become the gradient of the
    losses' sum times `share`, a scalar on the device. A target of -1 counts nothing; of one outside
    of the vocabulary the loss is NaN."""
    losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    _row[(len(logits),)](
        logits, targets, share, losses, logits.shape[1], logits.stride(0),
        PIECES=_PIECES, num_warps=_WARPS,
    )  # fmt: skip
    return losses


@triton.jit
def _row(logits, targets, share, losses, width, stride, PIECES: tl.constexpr):  # noqa: ANN001
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * stride
    target = tl.load(targets + row)
    places = tl.arange(0, PIECES)[:, None] * 8 + tl.arange(0, 8)[None, :]
    largest = tl.full([PIECES], float("-inf"), tl.float32)
    total = tl.zeros([PIECES], tl.float32)
    for first in range(0, width, PIECES * 8):
        columns = first + places
        x = tl.load(start + columns, mask=columns < width, other=float("-inf")).to(tl.float32)
        newest = tl.maximum(largest, tl.max(x, 1))
        base = tl.where(newest == float("-inf"), 0.0, newest)  # where all were -inf: exp gives 0
        total = total * tl.exp(largest - base) + tl.sum(tl.exp(x - base[:, None]), 1)
        largest = newest
    top = tl.max(largest, 0)
    # Beside the largest, not added to it: their sum would be rounded as coarsely as large logits.
    rest = tl.log(tl.sum(total * tl.exp(largest - top), 0))
    counts = (target >= 0) & (target < width)
    chosen = tl.load(start + tl.where(counts, target, 0)).to(tl.float32)
    uncounted = tl.where(target == -1, 0.0, float("nan"))
    tl.store(losses + row, tl.where(counts, rest - (chosen - top), uncounted))
    factor = tl.where(counts, tl.load(share).to(tl.float32), 0.0)
    tl.debug_barrier()  # the target's logit is read before another thread writes over it
    for first in range(0, width, PIECES * 8):
        columns = first + places
        inside = columns < width
        x = tl.load(start + columns, mask=inside, other=float("-inf")).to(tl.float32)
        slope = tl.exp((x - top) - rest) - tl.where(columns == target, 1.0, 0.0)
        tl.store(start + columns, (slope * factor).to(logits.dtype.element_ty), mask=inside)
