"""Statistics of a tensor by torch's own functions: few passes, no synchronisation, a short summary.

A summary is the largest absolute value of each channel, then rows of PART numbers, one row for each
part of the tensor: finite values, other values, zeros, minimum, maximum, mean, sum of squared
distances from the mean. The writer's thread combines the rows.
"""

import numpy as np
import torch
from torch import Tensor

from assay.captures.manifest import Statistics
from assay.captures.statistics import finished, largest_channels
from assay.captures.torch.transfer import Finish

PART = 7  # numbers in a row


def start_summary(tensor: Tensor) -> tuple[Tensor, Finish]:
    """Summary being computed on the tensor's device, and the function that finishes it on the host.

    `tensor` is floating and not empty: [B, H, S, D], or [..., channels].
    """
    tensor_BHSD = as_BHSD(tensor.detach())
    channels = tensor_BHSD.shape[1] * tensor_BHSD.shape[3]

    def finish(summary: Tensor) -> Statistics:
        numbers = summary.numpy()  # [channels + PART]
        return combine(numbers[None, :channels], numbers[None, None, channels:])[0]

    return _summary(tensor_BHSD), finish


def as_BHSD(tensor: Tensor) -> Tensor:
    """View with four axes; a tensor of fewer or more has one head."""
    if tensor.dim() == 4:
        return tensor
    if tensor.dim() < 3:
        return tensor.reshape(1, 1, -1, tensor.shape[-1])
    return tensor.flatten(1, -2).unsqueeze(1)


def combine(maxima: np.ndarray, parts: np.ndarray) -> list[Statistics]:
    """Statistics of several tensors: `maxima` [tensors, channels], `parts` [tensors, rows, PART].

    All at once, since the model's thread waits for whatever Python does here.
    """
    numbers = np.moveaxis(parts, -1, 0).astype(np.float64)  # [PART, tensors, rows]
    counts, means = numbers[0], numbers[5]  # [tensors, rows]
    totals = numbers[:3].sum(axis=2).astype(np.int64)  # [3, tensors]
    count = totals[0].clip(min=1)  # [tensors]
    mean = (counts * means).sum(axis=1) / count
    # Parts are combined as assay.captures.statistics combines blocks.
    squares = (numbers[6] + counts * (means - mean[:, None]) ** 2).sum(axis=1)
    std = np.sqrt(squares.clip(min=0) / count)
    columns = (
        *totals.tolist(),
        numbers[3].min(axis=1).tolist(),
        numbers[4].max(axis=1).tolist(),
        mean.tolist(),
        std.tolist(),
        largest_channels(maxima),
    )
    return [finished(*row) for row in zip(*columns, strict=True)]


def _summary(tensor_BHSD: Tensor) -> Tensor:
    """float64 [H * D + PART]: maxima of all channels, then one part."""
    wide = tensor_BHSD if tensor_BHSD.dtype == torch.float64 else tensor_BHSD.float()
    if wide.is_cpu:  # where reading a value waits for no device
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
    maxima = known.abs().amax(dim=(0, 2)).flatten()
    return torch.cat([maxima.double(), torch.stack([number.double() for number in part])])


def _summary_of_finite(wide: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The same in fewer passes, where every value is finite."""
    variance, mean = torch.var_mean(wide, correction=0)
    zeros = wide.numel() - int(wide.count_nonzero())
    part = [wide.numel(), 0, zeros, low, high, mean, float(variance) * wide.numel()]
    maxima = wide.abs().amax(dim=(0, 2)).flatten()
    return torch.cat([maxima.double(), torch.tensor(part, dtype=torch.float64)])
