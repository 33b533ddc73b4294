"""Statistics of a tensor where it lies: few passes, no waiting, a few numbers to copy.

A summary is rows of sizes by channel, and rows of seven numbers of one part of the tensor each:
finite numbers, not finite ones, zeros, least, largest, mean, sum of squared distances from it. The
writer's thread joins the rows.
"""

import math

import numpy as np
import torch
from torch import Tensor

from assay.captures.manifest import Statistics
from assay.captures.statistics import OUTLIERS
from assay.captures.torch.copies import Finish


def begun(tensor: Tensor) -> tuple[Tensor, Finish]:
    """A summary in the making by torch's own functions, and what to do with it on the host.

    `tensor` is floating and not empty: [B, H, S, D], or [..., channels].
    """
    whole = as_BHSD(tensor.detach())
    channels = whole.shape[1] * whole.shape[3]
    return _summary(whole), lambda summary: _finished(summary.numpy(), channels)


def _finished(summary: np.ndarray, channels: int) -> Statistics:
    return joined(summary[None, :channels], summary[None, None, channels:])[0]


def as_BHSD(tensor: Tensor) -> Tensor:
    """Four axes; what has fewer or more has one head."""
    if tensor.dim() == 4:
        return tensor
    if tensor.dim() < 3:
        return tensor.reshape(1, 1, -1, tensor.shape[-1])
    return tensor.flatten(1, -2).unsqueeze(1)


def joined(sizes: np.ndarray, parts: np.ndarray) -> list[Statistics]:
    """Statistics of several tensors: `sizes` [tensors, channels], `parts` [tensors, rows, 7].

    All at once, since whatever Python does here the model's thread waits for.
    """
    numbers = np.moveaxis(parts, -1, 0).astype(np.float64)  # [7, tensors, rows]
    counts, means = numbers[0], numbers[5]
    totals = numbers[:3].sum(axis=2).astype(np.int64)
    count = totals[0].clip(min=1)
    mean = (counts * means).sum(axis=1) / count
    # Parts joined as workloads.statistics joins blocks.
    squares = (numbers[6] + counts * (means - mean[:, None]) ** 2).sum(axis=1)
    std = np.sqrt(squares.clip(min=0) / count)
    columns = (
        *totals.tolist(),
        numbers[3].min(axis=1).tolist(),
        numbers[4].max(axis=1).tolist(),
        mean.tolist(),
        std.tolist(),
        _outliers(sizes),
    )
    return [_statistics(*row) for row in zip(*columns, strict=True)]


def _statistics(
    count: int,
    nonfinite: int,
    zeros: int,
    low: float,
    high: float,
    mean: float,
    std: float,
    outliers: list[tuple[int, float]],
) -> Statistics:
    known = count > 0
    return Statistics(
        count=count + nonfinite,
        nonfinite=nonfinite,
        zeros=zeros,
        minimum=low if known else None,
        maximum=high if known else None,
        mean=mean if known and math.isfinite(mean) else None,
        std=std if known and math.isfinite(std) else None,
        absmax=max(abs(low), abs(high)) if known else None,
        outliers=outliers if known else [],
    )


def _outliers(sizes: np.ndarray) -> list[list[tuple[int, float]]]:
    """Of each row the largest, largest first; of equal ones those of the first channels."""
    few = min(OUTLIERS, sizes.shape[1])
    least = np.partition(sizes, -few, axis=1)[:, -few]
    found = []
    for row, bound in zip(sizes, least, strict=True):
        among = np.flatnonzero(row >= bound)
        chosen = among[np.argsort(-row[among], kind="stable")[:few]]
        found.append(list(zip(chosen.tolist(), row[chosen].tolist(), strict=True)))
    return found


def _summary(whole: Tensor) -> Tensor:
    """By torch's own functions: sizes of all channels, then one part."""
    wide = whole if whole.dtype == torch.float64 else whole.float()
    if wide.is_cpu:  # where looking at numbers makes nothing wait
        low, high = wide.aminmax()
        if low.isfinite() and high.isfinite():
            return _summary_of_finite(wide, low, high)
    finite = wide.isfinite()
    count = finite.sum()
    known = wide.where(finite, 0)
    mean = known.sum(dtype=torch.float64) / count
    distance = (wide - mean.to(wide.dtype)).where(finite, 0)
    part = [
        count,
        finite.numel() - count,
        (wide == 0).sum(),
        wide.where(finite, torch.inf).amin(),
        wide.where(finite, -torch.inf).amax(),
        mean,
        distance.square().sum(dtype=torch.float64),
    ]
    sizes = known.abs().amax(dim=(0, 2)).flatten()
    return torch.cat([sizes.double(), torch.stack([number.double() for number in part])])


def _summary_of_finite(wide: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The same in fewer passes, where all is finite."""
    spread, mean = torch.var_mean(wide, correction=0)
    zeros = wide.numel() - int(wide.count_nonzero())
    part = [wide.numel(), 0, zeros, low, high, mean, float(spread) * wide.numel()]
    sizes = wide.abs().amax(dim=(0, 2)).flatten()
    return torch.cat([sizes.double(), torch.tensor(part, dtype=torch.float64)])
