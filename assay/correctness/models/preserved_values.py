"""Comparison of an initial value with a final one: kept, scaled, or drawn again the same way."""

import math
from collections.abc import Iterable
from statistics import median

import torch

_RANDOM_SLACK = 0.15  # of the logarithm of a spread
_ERRORS = 4  # standard errors of a spread or mean that count as chance


def is_preserved(initial: torch.Tensor, final: torch.Tensor, *, usual_spread: float | None) -> bool:
    """Return True where a weight still holds its initial value, up to scale or a new draw.

    `usual_spread` is the spread of most matrices of the model: a draw with it is nothing special.
    """
    initial, final = initial.double(), final.double()
    if initial.shape != final.shape:
        return False
    if torch.equal(initial, final):
        return True
    if _is_constant(initial):
        return initial.numel() > 1 and _is_scaled_constant(initial, final)
    if _is_proportional(initial, final):
        return True
    if _is_orthogonal(initial):
        return _is_orthogonal(final)
    if _is_patterned(initial):
        return False
    spread, count = float(initial.std()), initial.numel()
    ordinary = usual_spread is not None and _spreads_agree(spread, usual_spread, count)
    same = _spreads_agree(spread, float(final.std()), count)
    return ordinary or (same and _means_agree(initial, final))


def is_relation_preserved(
    initial: torch.Tensor, final: torch.Tensor, others: Iterable[tuple[torch.Tensor, torch.Tensor]]
) -> bool:
    """Return True where a matrix that was a copy or transpose of another still is, up to scale.

    `others` are initial and final values of the other weights.
    """
    if initial.ndim != 2 or _is_constant(initial):
        return True
    pairs = [pair for pair in others if pair[0].ndim == 2]
    pairs += [(other.T, other_final.T) for other, other_final in pairs]
    return all(
        _is_proportional(other_final.double(), final.double())
        for other, other_final in pairs
        if other.shape == initial.shape and torch.equal(other, initial)
    )


def median_spread(weights: Iterable[torch.Tensor]) -> float | None:
    """Median standard deviation of all matrices that are not constant."""
    spreads = [float(w.double().std()) for w in weights if w.ndim >= 2 and not _is_constant(w)]
    return median(spreads) if spreads else None


def _is_constant(value: torch.Tensor) -> bool:
    return bool(value.min() == value.max())


def _is_scaled_constant(initial: torch.Tensor, final: torch.Tensor) -> bool:
    """Not 0 and not 1: a general initialization gives those to biases and gains."""
    if not _is_constant(final) or not initial.any():
        return False
    return float(final.flatten()[0]) not in (0.0, 1.0)


def _is_proportional(initial: torch.Tensor, final: torch.Tensor) -> bool:
    size = float((initial * initial).sum())
    factor = float((initial * final).sum()) / size if size else 0.0
    if factor <= 0:
        return False
    error = float((final - factor * initial).abs().max())
    return error <= 1e-5 * factor * float(initial.abs().max())


def _is_orthogonal(value: torch.Tensor) -> bool:
    """Rows or columns at right angles and of one length, in every matrix of it."""
    if value.ndim < 2 or min(value.shape[-2:]) < 2:
        return False
    wide = value if value.shape[-2] <= value.shape[-1] else value.transpose(-1, -2)
    products = wide @ wide.transpose(-1, -2)
    lengths = products.diagonal(dim1=-2, dim2=-1)
    size = lengths.mean()
    if size <= 0 or (lengths - size).abs().max() > 1e-3 * size:
        return False
    return bool((products - torch.diag_embed(lengths)).abs().max() <= 1e-3 * size)


def _is_patterned(value: torch.Tensor) -> bool:
    """Few different numbers, or numbers in order: not the result of chance."""
    flat = value.flatten()
    if len(flat) < 4:
        return False
    few = len(flat.unique()) <= len(flat) // 2
    steps = flat.diff()
    return few or bool((steps >= 0).all() or (steps <= 0).all())


def _spreads_agree(spread: float, other: float, count: int) -> bool:
    if not spread or not other:
        return False
    return abs(math.log(spread / other)) <= max(_RANDOM_SLACK, _ERRORS / math.sqrt(count))


def _means_agree(initial: torch.Tensor, final: torch.Tensor) -> bool:
    error = float(initial.std()) / math.sqrt(initial.numel())
    return abs(float(initial.mean() - final.mean())) <= 1.5 * _ERRORS * error
