"""Structure in the errors of a tensor, which rounding does not have, however small the errors are.

A precision that is declared widens the budget of each element, and other mistakes are small enough
to fit in. Rounding errors are spread over all heads and rows, with both signs, and know nothing of
the scale or the mask. So the errors are projected on what a mistake would change: a factor of the
scores or of the tensor, the next key or the own key of causal rows, each key left out. Errors of
the baseline, which rounds as declared, say how much of such a projection rounding explains: that
between nothing and the baseline's own, and as much as chance gives.
"""

from dataclasses import dataclass, replace

import numpy as np

from assay.attention.reference import Result
from assay.correctness.diagnosis.forward import attend
from assay.correctness.diagnosis.patterns import places
from assay.workloads.workload import Workload

_BLOCK = 64  # rows that are looked at together
_CLEAR = 8.0  # standard deviations, beyond which a projection is not chance
_BIAS = 1 / 16  # of a unit of the declared precision: a factor that rounding may come to
_SIGNIFICANT = 1 / 64  # of such a unit: a smaller factor is that of float32
_LEFT = 0.15  # of the errors, where a factor explains the others; rounding as declared leaves more
_NO_IDEA = 1e30  # a standard deviation where nothing can be told
_LEFT_IN_HALF = 0.5  # likewise, in half precision, which rounds to nearest
_STEPS = 6  # towards a factor
_WHOLE = (0.6, 1.6)  # times the effect of a mistake, for it to be there
_FEWEST = 32  # independent errors, below which any error looks like a factor
_ABSENT = 0.3  # times that effect, where it is not there
_MANY = 8  # independent errors of a row
_LEAST_WEIGHT = 2.0**-6  # the smallest normal number of e4m3
_UNEVEN, _LARGE = 20.0, 0.02  # errors in some rows beside others, and beside those of the baseline

SCORES = "the scores are multiplied by {} times the scale"


@dataclass(frozen=True, kw_only=True)
class Structure:
    """A mistake that errors show, and how many times it exceeds what rounding explains."""

    cause: str
    share: float


@dataclass(frozen=True, kw_only=True)
class _Projection:
    """Errors along the change that a mistake makes, one array for all strata: sums of products with
    that change, of its squares, of products of the baseline's errors, of squared errors, of the
    baseline's, and the number of independent errors."""

    sums: np.ndarray  # [6, strata...]

    @classmethod
    def of(
        cls, change: np.ndarray, errors: np.ndarray, plain: np.ndarray, count: np.ndarray | float
    ) -> "_Projection":
        """Project errors, [B, H, M, D], in each row, of which `count` are independent."""
        pairs = ((errors, change), (change, change), (plain, change), (errors, errors))
        sums = [(a * b).sum(axis=-1) for a, b in (*pairs, (plain, plain))]
        return cls(sums=np.stack([*sums, count * (sums[1] > 0)]))

    def together(self, *axes: int) -> "_Projection":
        return _Projection(sums=self.sums.sum(axis=tuple(axis + 1 for axis in axes), keepdims=True))

    def in_blocks(self) -> "_Projection":
        starts = np.arange(0, self.sums.shape[3], _BLOCK)
        return _Projection(sums=np.add.reduceat(self.sums, starts, axis=3))

    def coefficients(self, *, beside: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return how many times the change is in the errors, that beyond what the baseline has of
        it, and the standard deviation that chance gives: by the baseline's errors, or, with
        `beside`, by those that are left beside the change, where there are enough."""
        along, squares, plain, errors, plain_errors, count = self.sums
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            times, ordinary = (np.nan_to_num(a / squares) for a in (along, plain))
            if beside:
                left = np.maximum(errors - along * times, 0.0)
                plain_errors = np.where(count >= _FEWEST, left, np.maximum(plain_errors, errors))
            chance = np.sqrt(plain_errors / (squares * count))
        excess = np.maximum(times - np.maximum(ordinary, 0), np.minimum(ordinary, 0) - times)
        return times, excess, np.minimum(np.nan_to_num(chance, nan=np.inf), _NO_IDEA)

    def rest(self, along: int, errors: int) -> np.ndarray:
        """Return the share of errors that is left without the projection."""
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = self.sums[along] ** 2 / (self.sums[1] * self.sums[errors])
        return np.sqrt(np.maximum(0.0, 1.0 - np.nan_to_num(explained)))

    def factor(self, unit: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the factor of each stratum, and by how much it exceeds what rounding explains:
        too far from 1, or with nothing left beside it."""
        times, excess, chance = self.coefficients()
        share = excess / (unit * _BIAS + _CLEAR * chance)
        rest = self.rest(0, 3)
        alone = (rest < _LEFT) & (self.rest(2, 4) > 2 * _LEFT)
        alone &= np.abs(times) > unit * _SIGNIFICANT
        alone &= self.sums[1] > self.sums[4]  # no remainder of what cancels
        share = np.maximum(share, np.where(alone, _LEFT / np.maximum(rest, 1e-6), 0.0))
        return 1 + times, np.where(self.sums[5] >= _FEWEST, share, 0.0)


def structure(
    tensor: str, actual: np.ndarray, right: Result, plain: Result, workload: Workload, unit: float
) -> Structure | None:
    """Return the clearest structure in a tensor that rounding with `unit` does not have, or None.
    `plain` is the baseline's. Where a softmax saturates nothing is linear, so only normal values
    are looked at."""
    wanted = getattr(right, tensor)
    errors, plain_errors = actual - wanted, getattr(plain, tensor) - wanted
    if workload.spec.values != "normal" or not np.isfinite(errors + plain_errors).all():
        return None
    # Errors of a query's dS are those of its dP and delta, which all of its row shares.
    queries, keys = workload.spec.query_length, workload.spec.key_length
    count = 1.0 if tensor == "dq" else min(1.0, queries / keys)
    if tensor == "out":
        weights = Weights(workload, right)
        count = weights.independent
    rows = _Projection.of(wanted, errors, plain_errors, count)
    looks = [
        _factor(tensor, f"every element of {tensor} is {{}} times what it should be", rows, unit)
    ]
    if tensor == "out":
        rows = _Projection.of(weights.by_scale(), errors, plain_errors, count)
        looks.insert(0, _factor(tensor, SCORES, rows, unit))
        looks += [_wrong_key(weights, ahead, errors, plain_errors) for ahead in (1, 0)]
        looks.append(_wrong_weight(weights, errors, plain_errors))
    clearest = max(filter(None, looks), key=lambda look: look.share, default=None)
    return clearest or _uneven(tensor, rows)


def factor_of_scores(actual: np.ndarray, right: np.ndarray, workload: Workload) -> float | None:
    """Return the factor of the scores that explains all errors of an output; None where none
    does."""
    spec = workload.spec
    factor, error = 1.0, np.linalg.norm(actual - right)
    result = attend(replace(workload, grad_out=workload.grad_out[:0]))
    change = Weights(workload, result).by_scale()
    if not np.isfinite(error) or not (square := float((change**2).sum())):
        return None
    for _ in range(_STEPS):
        factor += float(((actual - result.out) * change).sum()) / square
        if not 0.5 < factor < 2:
            return None
        result = attend(
            replace(workload, grad_out=workload.grad_out[:0]), scale=spec.scale * factor
        )
    rest = np.linalg.norm(actual - result.out)
    return factor if rest < (_LEFT if spec.dtype == "float32" else _LEFT_IN_HALF) * error else None


def factor_in_words(factor: float, *, exact: bool) -> str:
    """Return a factor with two digits of its distance from 1, or one where it is not exact."""
    return f"{1 + float(f'{factor - 1:.{1 if exact else 0}e}'):.8g}"


def _factor(tensor: str, words: str, rows: _Projection, unit: float) -> Structure | None:
    """Return that something has a factor: throughout, or in some heads."""
    together, heads = rows.together(0, 1, 2), rows.together(2)
    factors, shares = together.factor(unit)
    of_heads, shares_of_heads = heads.factor(unit)
    wrong, where = shares_of_heads > 1, ""
    if wrong.any() and (shares_of_heads < 0.5).any():
        free = (shares_of_heads[~wrong] < 0.5).all()
        where = f" ({'in' if free else 'at least in'} {places(tensor, wrong)})"
        factors, shares, together = of_heads, shares_of_heads, heads
    place = np.unravel_index(shares.argmax(), shares.shape)
    if not shares[place] > 1:
        return None
    number = factor_in_words(float(factors[place]), exact=together.rest(0, 3)[place] < 2 * _LEFT)
    return Structure(cause=words.format(f"about {number}") + where, share=float(shares[place]))


class Weights:
    """Weights of the softmax, and how the output changes with them."""

    def __init__(self, workload: Workload, right: Result) -> None:
        spec = workload.spec
        group = spec.heads // spec.kv_heads
        keys, self.values = (
            np.repeat(a, group, axis=1).astype(np.float64) for a in (workload.k, workload.v)
        )
        lse = np.where(np.isneginf(right.lse), 0.0, right.lse)[..., None]
        self.scores = spec.scale * (workload.q.astype(np.float64) @ keys.swapaxes(-1, -2))
        self.all = np.exp(np.minimum(self.scores - lse, 50.0))
        self.visible = np.where(workload.visible, self.all, 0.0)
        self.out = right.out
        self.causal = spec.causal and not spec.extras
        # Where few keys have all the weight, errors of a row are along these.
        few = 1 / np.maximum((self.visible**2).sum(axis=-1), 1e-6)
        self.independent = np.minimum(few, right.out.shape[-1])

    def by_scale(self) -> np.ndarray:
        """Return the change of the output with the logarithm of the scale."""
        parts = self.visible * self.scores
        return parts @ self.values - parts.sum(axis=-1, keepdims=True) * self.out

    def by_key(self, ahead: int) -> np.ndarray:
        """Return the change where each query sees the key after its own as well (`ahead` is 1), or
        does not see its own (0); rows without both kinds of keys do not change."""
        queries, keys = self.all.shape[-2:]
        rows, columns = np.arange(queries), np.arange(queries) + keys - queries + ahead
        inside = (columns >= 1) & (columns < keys)
        columns = np.clip(columns, 0, keys - 1)
        weight = self.all[:, :, rows, columns][..., None]
        share = weight / (1 + weight) if ahead else -weight / np.maximum(1 - weight, 1e-6)
        return np.where(inside[:, None], share * (self.values[:, :, columns] - self.out), 0.0)


def _wrong_key(
    weights: Weights, ahead: int, errors: np.ndarray, plain: np.ndarray
) -> Structure | None:
    """Return that queries see the key after their own, or not their own, in some rows or all."""
    if not weights.causal:
        return None
    rows = _Projection.of(weights.by_key(ahead), errors, plain, weights.independent)
    blocks = rows.in_blocks()
    times, excess, chance = blocks.coefficients(beside=True)
    wrong = _is_whole(times, excess, chance)
    if not wrong.any():
        return None
    by_row = np.repeat(wrong, _BLOCK, axis=2)[:, :, : errors.shape[2]]
    words = "a query sees one future key" if ahead else "a query does not see its own key"
    where = places("out", by_row)
    share = (excess / (_CLEAR * chance))[wrong].max()
    free = (np.abs(times[~wrong]) < _ABSENT).all()
    where = f" ({'in' if free else 'at least in'} {where})" if where else ""
    return Structure(cause=words + where, share=float(share))


def _wrong_weight(weights: Weights, errors: np.ndarray, plain: np.ndarray) -> Structure | None:
    """Return that keys are left out, or count twice, for all queries of a head."""
    values, visible = weights.values, weights.visible
    # A weight that FP8 may round to 0 beside the row's largest is no mistake.
    looked_at = visible > visible.max(axis=-1, keepdims=True) * _LEAST_WEIGHT
    looked_at &= (weights.independent >= _MANY)[..., None]  # in others each key is in the budget
    parts = np.where(looked_at, visible / (1 - np.minimum(visible, 0.9)), 0.0)

    def along(vectors: np.ndarray) -> np.ndarray:
        own = (vectors * weights.out).sum(axis=-1, keepdims=True)
        return (parts * (own - vectors @ values.swapaxes(-1, -2))).sum(axis=2)

    size = (values**2).sum(axis=-1)[:, :, None] + (weights.out**2).sum(axis=-1, keepdims=True)
    squares = (parts**2 * (size - 2 * weights.out @ values.swapaxes(-1, -2))).sum(axis=2)
    seeing = (parts > 0).astype(np.float64)
    count = (seeing * weights.independent[..., None]).sum(axis=2)
    every = [((array**2).sum(axis=-1)[..., None] * seeing).sum(axis=2) for array in (errors, plain)]
    sums = np.stack([along(errors), squares, along(plain), *every, count])
    times, excess, chance = _Projection(sums=sums).coefficients(beside=True)
    for sign, words in ((1, "left out"), (-1, "counted twice")):
        wrong = _is_whole(sign * times, excess, chance)
        if wrong.any():
            keys = places("the weights", wrong, ("batch entry", "head", "key"))
            share = (excess / (_CLEAR * chance))[wrong].max()
            return Structure(cause=f"keys are {words} ({keys or 'all'})", share=float(share))
    return None


def _is_whole(times: np.ndarray, excess: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Return where the whole effect of a mistake stands out of rounding."""
    low, high = _WHOLE
    return (times > low) & (times < high) & (excess > low) & (excess > _CLEAR * chance)


def _uneven(tensor: str, rows: _Projection) -> Structure | None:
    """Return that errors are large in some rows and next to none in others, or have one sign."""
    blocks = rows.in_blocks().sums
    errors, plain = np.sqrt(blocks[3:5])
    compared = (plain > 0.05 * plain.max()) & (blocks[5] >= _FEWEST)
    if not compared.any():
        return None
    ratios = np.where(compared, errors / np.where(compared, plain, 1.0), np.nan)
    largest, least = np.nanmax(ratios), np.nanmin(ratios)
    if not largest > max(_LARGE, _UNEVEN * least):
        return None
    by_row = np.repeat(ratios > largest / _UNEVEN, _BLOCK, axis=2)[:, :, : rows.sums.shape[3]]
    where = places(tensor, by_row)
    share = float(largest / max(_UNEVEN * least, _LARGE / 1e3))
    return Structure(cause=f"errors are next to none but in {where}", share=share)
