"""The error budget: how far from the float64 reference an implementation may be.

Its largest and its mean error may be twice those of the plain low-precision baseline; and never
less than the rounding that no implementation can avoid:

- one unit in the last place of the output dtype at the row's largest value, and at the size of its
  terms in quadrature, each of which may be rounded by itself; for dk and dv another unit, for a
  partial sum that is rounded on the way, and half a unit for each query head whose gradient is
  rounded before a kv head adds it to the others; in rows below the smallest normal number, where
  the unit does not shrink with a partial sum, half a unit for each of the partial sums over 32
  queries, or four standard deviations of so many roundings where that is less;
- sqrt(n) units of float32, in which sums accumulate, at the sum of the terms' sizes (they may
  cancel): n roundings, each as likely up as down, wander that far. n counts the keys, because every
  probability carries its row's normaliser, and for dk and dv also the query rows;
- the rounding of a score, which is a relative error of its probability, at the largest score of the
  row, or at its products in quadrature where they are more (the score of a single key may be near
  0): 1.5 sqrt(head_dim) units of float32, in which they are added up; and in half precision, in
  which plain code holds scores, two units of the dtype, on terms added in quadrature,
  because each score is rounded by itself;
- the same units of float32 for dP = dO Vᵀ and the row sum of O dO, whose difference may be zero, at
  the size of their products;
- where float32 is declared to go through TF32, two units of TF32, one for each operand of a
  product, on terms added in quadrature, and as many for a score, as in half precision; where inputs
  are declared to be of FP8, one unit of that on terms added in quadrature;
- a few units of float32 for exp, which hardware approximates;
- the smallest normal number of float32, below which hardware may flush to zero.
"""

from dataclasses import dataclass

import numpy as np

from assay.attention.precision import PLAIN, TF32, Precision
from assay.attention.reference import Result, sum_group
from assay.workloads.values import FLOAT8
from assay.workloads.visibility import visibility_mask

BASELINE_FACTOR = 2.0
MEAN_FLOOR_SHARE = 0.5  # correct rounding is off by a quarter of a unit on average
EXP_UNITS = 4  # of float32, for exp and log and their change of base; ex2.approx alone has two
HALF_SCORE_UNITS = 2  # of the dtype, where scores are held in half precision
TF32_UNITS = 2  # of TF32: the two operands of a product
SCORE_UNITS = 2  # of float32: the scale, and the LSE that is taken off in a backward pass
# The fewest queries that torch's CPU kernel adds up before it rounds dk and dv to half precision.
PARTIAL_SUM_ROWS = 32
TENSORS = ("out", "dq", "dk", "dv")

_MANTISSA_BITS = {"float32": 23, "tf32": 10, "float16": 10, "bfloat16": 7}
_SMALLEST_EXPONENT = {"float32": -126, "tf32": -126, "float16": -14, "bfloat16": -126}
# With a scale, numbers of FP8 may be as small as those of float32.
_MANTISSA_BITS |= {name: form.bits for name, form in FLOAT8.items()}
_SMALLEST_EXPONENT |= dict.fromkeys(FLOAT8, _SMALLEST_EXPONENT["float32"])


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The largest error allowed in each row, [B, heads, rows, 1], and the mean over all."""

    largest: np.ndarray
    mean: float


def allowances(
    reference: Result,
    baseline: Result,
    *,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_out: np.ndarray,
    causal: bool,
    scale: float,
    dtype: str,
    visible: np.ndarray | None = None,
    keys: int | None = None,
    precision: Precision = PLAIN,
) -> dict[str, Allowance]:
    """Allowances of each of TENSORS, and of lse, whose dtype is float32 always.

    `keys` is the number of all keys where k and v hold only some of them.
    """
    scores_in = TF32 if precision.is_tf32(dtype) else dtype
    group = q.shape[1] // k.shape[1]
    if visible is None:
        visible = visibility_mask(q.shape[2], k.shape[2], causal=causal)
    sizes = _term_sizes(reference, q, k, v, grad_out, visible=visible, scale=scale)
    keys = keys or k.shape[2]
    keys_and_rows = keys + group * q.shape[2]
    terms = {"out": keys, "dq": keys, "dk": keys_and_rows, "dv": keys_and_rows}
    roundings = 2 + (group / 2 if group > 1 else 0)
    units = {"out": 1.0, "dq": 1.0, "dk": roundings, "dv": roundings}
    partial_sums = group * -(-q.shape[2] // PARTIAL_SUM_ROWS)
    in_denormals = max(roundings, min(partial_sums / 2, 4 * np.sqrt(partial_sums / 12)))
    denormal_units = units | {"dk": in_denormals, "dv": in_denormals}
    score_units = 1.5 * np.sqrt(q.shape[3]) + SCORE_UNITS
    allowed = {}
    for name in TENSORS:
        size = sizes.summed[name].max(axis=-1, keepdims=True)
        row = np.abs(getattr(reference, name)).max(axis=-1, keepdims=True)
        largest = row + sizes.quadrature[name]
        denormal = largest < 2.0 ** _SMALLEST_EXPONENT[dtype]
        floor = np.where(denormal, denormal_units[name], units[name]) * ulp(largest, dtype)
        floor += (np.sqrt(terms[name]) + EXP_UNITS) * ulp(size, "float32")
        floor += score_units * ulp(sizes.score[name], "float32") * size
        if name in sizes.products:
            floor += score_units * ulp(sizes.products[name], "float32")
        if precision.is_tf32(dtype):
            floor += TF32_UNITS * ulp(sizes.quadrature[name], TF32)
        if precision.format:
            floor += ulp(sizes.quadrature[name], precision.format)
        floor += _half_scores(sizes, name, scores_in) + 2.0 ** _SMALLEST_EXPONENT["float32"]
        allowed[name] = _allowance(getattr(baseline, name) - getattr(reference, name), floor)
    lse = np.where(np.isfinite(reference.lse), np.abs(reference.lse), 0.0)[..., None]
    floor = EXP_UNITS * ulp(lse, "float32") + score_units * ulp(sizes.score["out"], "float32")
    floor += (np.sqrt(keys) + EXP_UNITS) * ulp(1.0, "float32") + _half_scores(
        sizes, "lse", scores_in
    )
    with np.errstate(invalid="ignore"):  # -inf less -inf, where a row sees nothing
        allowed["lse"] = _allowance((baseline.lse - reference.lse)[..., None], floor)
    return allowed


def _allowance(baseline_error: np.ndarray, floor: np.ndarray) -> Allowance:
    """Twice the baseline's error or the floor; an overflow of the baseline excuses nothing."""
    finite = np.abs(baseline_error[np.isfinite(baseline_error)])
    largest, mean = (float(finite.max()), float(finite.mean())) if finite.size else (0.0, 0.0)
    # The mean of few elements is hardly less than the largest of them.
    share = MEAN_FLOOR_SHARE + (1 - MEAN_FLOOR_SHARE) / np.sqrt(baseline_error.size)
    return Allowance(
        largest=np.maximum(BASELINE_FACTOR * largest, floor),
        mean=max(BASELINE_FACTOR * mean, float(share * floor.mean())),
    )


def ulp(values: np.ndarray | float, dtype: str) -> np.ndarray:
    """Unit in the last place: the distance between numbers of `dtype` at the size of `values`."""
    smallest = 2.0 ** _SMALLEST_EXPONENT[dtype]
    exponent = np.floor(np.log2(np.maximum(values, smallest)))
    return np.exp2(exponent - _MANTISSA_BITS[dtype])


@dataclass(frozen=True, kw_only=True)
class _TermSizes:
    """Sizes of the terms that each tensor is a sum of, by tensor and row, [B, heads, rows, ...]."""

    summed: dict[str, np.ndarray]  # by element: added up, as if nothing cancelled
    products: dict[str, np.ndarray]  # of dq and dk: with the products behind dP and delta
    quadrature: dict[str, np.ndarray]
    score: dict[str, np.ndarray]  # the largest score behind a row


def _half_scores(sizes: _TermSizes, name: str, dtype: str) -> np.ndarray | float:
    """The error of scores held in half precision, or computed in TF32; none in float32."""
    if dtype == "float32":
        return 0.0
    return HALF_SCORE_UNITS * ulp(sizes.score[name], dtype) * sizes.quadrature[name]


def _term_sizes(
    reference: Result,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_out: np.ndarray,
    *,
    visible: np.ndarray,
    scale: float,
) -> _TermSizes:
    group = q.shape[1] // k.shape[1]
    q, grad = q.astype(np.float64), grad_out.astype(np.float64)
    keys = np.repeat(k, group, axis=1).astype(np.float64)
    values = np.repeat(v, group, axis=1).astype(np.float64)
    lse = np.where(np.isneginf(reference.lse), 0.0, reference.lse)[..., None]
    scores = scale * (q @ keys.swapaxes(-1, -2))  # [B, H, M, N]
    probabilities = np.exp(np.where(visible, scores, -np.inf) - lse)
    delta = np.abs((grad * reference.out).sum(axis=-1, keepdims=True))
    grad_s = scale * probabilities * (np.abs(grad @ values.swapaxes(-1, -2)) + delta)

    def sums(p: np.ndarray, ds: np.ndarray, *factors: np.ndarray) -> dict[str, np.ndarray]:
        v, k, q, grad = factors
        return {
            "out": p @ v,
            "dq": ds @ k,
            "dk": sum_group(ds.swapaxes(-1, -2) @ q, group),
            "dv": sum_group(p.swapaxes(-1, -2) @ grad, group),
        }

    factors = [np.abs(array) for array in (values, keys, q, grad)]
    size_v, size_k, size_q, size_grad = factors
    row_terms = (size_grad * np.abs(reference.out)).sum(axis=-1, keepdims=True)
    parts = scale * probabilities * (size_grad @ size_v.swapaxes(-1, -2) + row_terms)
    products = {
        "dq": (parts @ size_k).max(axis=-1, keepdims=True),
        "dk": sum_group(parts.swapaxes(-1, -2) @ size_q, group).max(axis=-1, keepdims=True),
    }
    squares = sums(probabilities**2, grad_s**2, *(array**2 for array in factors))
    squares["lse"] = (probabilities**2).sum(axis=-1, keepdims=True)
    quadrature = {
        name: np.sqrt(square).max(axis=-1, keepdims=True) for name, square in squares.items()
    }
    # Products in quadrature: of a score that is a small difference of large ones, the larger size.
    products_of_scores = scale * np.sqrt(q**2 @ (keys**2).swapaxes(-1, -2))
    visible_scores = np.where(visible, np.maximum(np.abs(scores), products_of_scores), 0.0)
    by_query = visible_scores.max(axis=-1)[..., None]
    by_key = visible_scores.max(axis=-2)[..., None]
    batch, heads, length, _ = by_key.shape
    by_key = by_key.reshape(batch, heads // group, group, length, 1).max(axis=2)
    return _TermSizes(
        summed=sums(probabilities, grad_s, *factors),
        products=products,
        quadrature=quadrature,
        score={"out": by_query, "lse": by_query, "dq": by_query, "dk": by_key, "dv": by_key},
    )
