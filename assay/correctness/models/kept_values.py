"""Whether a weight still holds what was put there: the same, scaled, or drawn again alike."""

import math
from collections.abc import Iterable
from statistics import median

import torch

_RANDOM_SLACK = 0.15  # of the logarithm of a spread
_ERRORS = 4  # standard errors of a spread or mean that count as chance


def kept(value: torch.Tensor, final: torch.Tensor, *, usual: float | None) -> bool:
    """`usual` is how far most matrices of the model spread: to be drawn so is nothing special."""
    value, final = value.double(), final.double()
    if value.shape != final.shape:
        return False
    if torch.equal(value, final):
        return True
    if _constant(value):
        return value.numel() > 1 and _scaled_constant(value, final)
    if _proportional(value, final):
        return True
    if _orthogonal(value):
        return _orthogonal(final)
    if _patterned(value):
        return False
    same = _spreads_alike(float(value.std()), float(final.std()), value.numel())
    ordinary = usual is not None and _spreads_alike(float(value.std()), usual, value.numel())
    return ordinary or (same and _means_alike(value, final))


def relation_kept(
    value: torch.Tensor, final: torch.Tensor, others: Iterable[tuple[torch.Tensor, torch.Tensor]]
) -> bool:
    """Whether a weight that was another's copy or transpose is that still, but for a factor."""
    if value.ndim != 2 or _constant(value):
        return True
    for other, other_final in others:
        for turned in (lambda x: x, lambda x: x.T):
            if other.ndim == 2 and turned(other).shape == value.shape:
                was = torch.equal(turned(other), value)
                if was and not _proportional(turned(other_final).double(), final.double()):
                    return False
    return True


def usual_spread(weights: Iterable[torch.Tensor]) -> float | None:
    """The middle one of the spreads of all matrices that are not constant."""
    spreads = [float(w.double().std()) for w in weights if w.ndim >= 2 and not _constant(w)]
    return median(spreads) if spreads else None


def _constant(value: torch.Tensor) -> bool:
    return bool(value.min() == value.max())


def _scaled_constant(value: torch.Tensor, final: torch.Tensor) -> bool:
    """Not 0 and not 1: those are what a general start gives to biases and gains."""
    if not _constant(final) or not value.any():
        return False
    return float(final.flatten()[0]) not in (0.0, 1.0)


def _proportional(value: torch.Tensor, final: torch.Tensor) -> bool:
    size = float((value * value).sum())
    factor = float((value * final).sum()) / size if size else 0.0
    if factor <= 0:
        return False
    return float((final - factor * value).abs().max()) <= 1e-5 * factor * float(value.abs().max())


def _orthogonal(value: torch.Tensor) -> bool:
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


def _patterned(value: torch.Tensor) -> bool:
    """Few different numbers, or numbers in order: chance does not give that."""
    flat = value.flatten()
    if len(flat) < 4:
        return False
    few = len(flat.unique()) <= len(flat) // 2
    steps = flat.diff()
    return few or bool((steps >= 0).all() or (steps <= 0).all())


def _spreads_alike(one: float, other: float, count: int) -> bool:
    if not one or not other:
        return False
    return abs(math.log(one / other)) <= max(_RANDOM_SLACK, _ERRORS / math.sqrt(count))


def _means_alike(value: torch.Tensor, final: torch.Tensor) -> bool:
    error = float(value.std()) / math.sqrt(value.numel())
    return abs(float(value.mean() - final.mean())) <= 1.5 * _ERRORS * error
