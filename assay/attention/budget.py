"""How far from the float64 reference an implementation may be.

Its largest and its mean error may be twice those of the plain low-precision baseline; and never
less than the rounding that no implementation can avoid, judged at the size of the terms that are
added up (they may cancel):

- one unit in the last place of the output dtype, and half a unit more for each query head whose
  gradient is rounded before a kv head adds it to the others;
- sqrt(n) units of float32, in which sums accumulate: n roundings, each as likely up as down,
  wander that far. n counts the keys, because every probability carries its row's normaliser, and
  for dk and dv also the query rows;
- the rounding of a score, which is a relative error of its probability: one unit of the dtype
  for half precision, in which plain code holds scores, and sqrt(head_dim) units of float32, in
  which head_dim products are added up; at the largest score of the row;
- a few units of float32 for exp, which hardware approximates;
- the smallest normal number of float32, below which hardware may flush to zero.
"""

from dataclasses import dataclass

import numpy as np

from assay.attention.reference import Result
from assay.workloads.visibility import visible

BASELINE_FACTOR = 2.0
MEAN_FLOOR_SHARE = 0.5  # correct rounding is off by a quarter of a unit on average
EXP_UNITS = 4  # of float32; ex2.approx alone has two
SCORE_UNITS = 2  # of float32: the scale, and the LSE that is taken off in a backward pass
TENSORS = ("out", "dq", "dk", "dv")

_MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7}
_SMALLEST_EXPONENT = {"float32": -126, "float16": -14, "bfloat16": -126}


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The largest error allowed in each row, [B, heads, rows, 1], and the mean over all."""

    largest: np.ndarray
    mean: float


def budgets(reference: Result, baseline: Result, **call: object) -> dict[str, np.ndarray]:
    """For each of TENSORS the largest error allowed in each row; arguments as `allowances`."""
    found = allowances(reference, baseline, **call)  # type: ignore[arg-type]
    return {name: found[name].largest for name in TENSORS}


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
    seen: np.ndarray | None = None,
) -> dict[str, Allowance]:
    """What is allowed for each of TENSORS, and for lse, whose dtype is float32 always."""
    group = q.shape[1] // k.shape[1]
    if seen is None:
        seen = visible(q.shape[2], k.shape[2], causal=causal)
    sizes, scores = _term_sizes(reference, q, k, v, grad_out, seen=seen, scale=scale)
    keys, gathered = k.shape[2], k.shape[2] + group * q.shape[2]
    terms = {"out": keys, "dq": keys, "dk": gathered, "dv": gathered}
    roundings = 1 + (group / 2 if group > 1 else 0)
    units = {"out": 1.0, "dq": 1.0, "dk": roundings, "dv": roundings}
    score_error = {}
    for name, largest in scores.items():
        score_error[name] = (np.sqrt(q.shape[3]) + SCORE_UNITS) * ulp(largest, "float32")
        if dtype != "float32":
            score_error[name] += ulp(largest, dtype)
    allowed = {}
    for name in TENSORS:
        size = sizes[name].max(axis=-1, keepdims=True)
        floor = units[name] * ulp(size, dtype)
        floor += (np.sqrt(terms[name]) + EXP_UNITS) * ulp(size, "float32")
        floor += score_error[name] * size + 2.0 ** _SMALLEST_EXPONENT["float32"]
        allowed[name] = _allowance(getattr(baseline, name) - getattr(reference, name), floor)
    lse = np.where(np.isfinite(reference.lse), np.abs(reference.lse), 0.0)[..., None]
    floor = ulp(lse, "float32") + score_error["out"] + np.sqrt(keys) * ulp(1.0, "float32")
    with np.errstate(invalid="ignore"):  # -inf less -inf, where a row sees nothing
        allowed["lse"] = _allowance((baseline.lse - reference.lse)[..., None], floor)
    return allowed


def _allowance(baseline_error: np.ndarray, floor: np.ndarray) -> Allowance:
    """Where the baseline itself overflows, that must not excuse everything else."""
    finite = np.abs(baseline_error[np.isfinite(baseline_error)])
    largest, mean = (float(finite.max()), float(finite.mean())) if finite.size else (0.0, 0.0)
    # The mean of few elements is hardly less than the largest of them.
    share = MEAN_FLOOR_SHARE + (1 - MEAN_FLOOR_SHARE) / np.sqrt(baseline_error.size)
    return Allowance(
        largest=np.maximum(BASELINE_FACTOR * largest, floor),
        mean=max(BASELINE_FACTOR * mean, float(share * floor.mean())),
    )


def ulp(values: np.ndarray | float, dtype: str) -> np.ndarray:
    """The distance between neighbouring numbers of `dtype` at the size of `values`."""
    smallest = 2.0 ** _SMALLEST_EXPONENT[dtype]
    exponent = np.floor(np.log2(np.maximum(values, smallest)))
    return np.exp2(exponent - _MANTISSA_BITS[dtype])


def _term_sizes(
    reference: Result,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_out: np.ndarray,
    *,
    seen: np.ndarray,
    scale: float,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The sums of the absolute terms behind each element of each tensor, and the largest score
    behind each row."""
    group = q.shape[1] // k.shape[1]
    q, grad = q.astype(np.float64), grad_out.astype(np.float64)
    keys = np.repeat(k, group, axis=1).astype(np.float64)
    values = np.repeat(v, group, axis=1).astype(np.float64)
    lse = np.where(np.isneginf(reference.lse), 0.0, reference.lse)[..., None]
    scores = scale * (q @ keys.swapaxes(-1, -2))
    probabilities = np.exp(np.where(seen, scores, -np.inf) - lse)
    delta = np.abs((grad * reference.out).sum(axis=-1, keepdims=True))
    grad_s = scale * probabilities * (np.abs(grad @ values.swapaxes(-1, -2)) + delta)

    def gathered(per_query_head: np.ndarray) -> np.ndarray:
        batch, heads, length, dim = per_query_head.shape
        return per_query_head.reshape(batch, heads // group, group, length, dim).sum(axis=2)

    sizes = {
        "out": probabilities @ np.abs(values),
        "dq": grad_s @ np.abs(keys),
        "dk": gathered(grad_s.swapaxes(-1, -2) @ np.abs(q)),
        "dv": gathered(probabilities.swapaxes(-1, -2) @ np.abs(grad)),
    }
    shown = np.where(seen, np.abs(scores), 0.0)
    by_query, by_key = shown.max(axis=-1)[..., None], shown.max(axis=-2)[..., None]
    batch, heads, length, _ = by_key.shape
    by_key = by_key.reshape(batch, heads // group, group, length, 1).max(axis=2)
    return sizes, {"out": by_query, "dq": by_query, "dk": by_key, "dv": by_key}
