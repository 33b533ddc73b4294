"""Statistics of a tensor where it lies: few passes, no waiting, a few numbers to copy.

A summary is rows of sizes by channel, and rows of seven numbers of one part of the tensor each:
finite numbers, not finite ones, zeros, least, largest, mean, sum of squared distances from it. The
writer's thread joins the rows.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from assay.workloads.manifest import Statistics
from assay.workloads.statistics import OUTLIERS

Finish = Callable[[Tensor], Statistics | None]
PART = 7  # numbers of a part


def begun(tensor: Tensor) -> tuple[Tensor, Finish]:
    """A summary in the making on the tensor's device, and what to do with it on the host.

    `tensor` is floating and not empty: [B, H, S, D], or [..., channels].
    """
    whole = as_BHSD(tensor.detach())
    channels = whole.shape[1] * whole.shape[3]
    if whole.is_cuda and _triton() and whole.dtype != torch.float64:
        from assay.capture import torch_statistics_triton

        return torch_statistics_triton.begun(whole)
    return _summary(whole), lambda summary: joined(
        summary[:channels].numpy()[None], summary[channels:].numpy()[None]
    )


def as_BHSD(tensor: Tensor) -> Tensor:
    """Four axes; what has fewer or more has one head."""
    if tensor.dim() == 4:
        return tensor
    if tensor.dim() < 3:
        return tensor.reshape(1, 1, -1, tensor.shape[-1])
    return tensor.flatten(1, -2).unsqueeze(1)


def joined(sizes: np.ndarray, parts: np.ndarray) -> Statistics:
    """Statistics of `sizes` [rows, channels] and `parts` [rows, PART]."""
    parts = parts.astype(np.float64)
    counts, means, squares = parts[:, 0], parts[:, 5], parts[:, 6]
    count, nonfinite = int(counts.sum()), int(parts[:, 1].sum())
    if not count:
        return _nothing_finite(nonfinite)
    mean = float((counts * means).sum() / count)
    # Parts joined as workloads.statistics joins blocks.
    spread = float((squares + counts * (means - mean) ** 2).sum() / count)
    low, high = float(parts[:, 3].min()), float(parts[:, 4].max())
    return Statistics(
        count=count + nonfinite,
        nonfinite=nonfinite,
        zeros=int(parts[:, 2].sum()),
        minimum=low,
        maximum=high,
        mean=mean if np.isfinite(mean) else None,
        std=float(np.sqrt(max(spread, 0.0))) if np.isfinite(spread) else None,
        absmax=max(abs(low), abs(high)),
        outliers=_outliers(sizes.max(axis=0)),
    )


def _outliers(sizes: np.ndarray) -> list[tuple[int, float]]:
    order = np.argsort(-sizes, kind="stable")[:OUTLIERS]
    return [(int(channel), float(sizes[channel])) for channel in order]


def _nothing_finite(nonfinite: int) -> Statistics:
    unknown = dict.fromkeys(("minimum", "maximum", "mean", "std", "absmax"))
    return Statistics(count=nonfinite, nonfinite=nonfinite, zeros=0, **unknown)


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


@cache
def _triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
