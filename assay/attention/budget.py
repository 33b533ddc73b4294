"""How far from the float64 reference an implementation may be.

Twice the largest error of the plain low-precision baseline; and never less than the rounding that
no implementation can avoid, judged at the size of the terms that are added up (they may cancel):

- one unit in the last place of the output dtype, and half a unit more for each query head whose
  gradient is rounded before a kv head adds it to the others;
- sqrt(n) units of float32, in which sums accumulate: n roundings, each as likely up as down,
  wander that far. n counts the keys, because every probability carries its row's normaliser, and
  for dk and dv also the query rows;
- sqrt(head_dim) float32 units of the largest score: a score is a sum of head_dim products, and its
  error is a relative error of its probability.
"""

import numpy as np

from assay.attention.reference import Result, visible

BASELINE_FACTOR = 2.0
TENSORS = ("out", "dq", "dk", "dv")

_MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7}
_SMALLEST_EXPONENT = {"float32": -126, "float16": -14, "bfloat16": -126}


def budgets(
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
) -> dict[str, np.ndarray]:
    """For each tensor the largest error allowed in each row, [B, heads, rows, 1]."""
    group = q.shape[1] // k.shape[1]
    sizes, score = _term_sizes(reference, q, k, v, grad_out, causal=causal, scale=scale)
    keys, gathered = k.shape[2], k.shape[2] + group * q.shape[2]
    terms = {"out": keys, "dq": keys, "dk": gathered, "dv": gathered}
    roundings = 1 + (group / 2 if group > 1 else 0)
    units = {"out": 1.0, "dq": 1.0, "dk": roundings, "dv": roundings}
    allowed = {}
    for name in TENSORS:
        size = sizes[name].max(axis=-1, keepdims=True)
        floor = units[name] * ulp(size, dtype)
        floor += np.sqrt(terms[name]) * ulp(size, "float32")
        floor += np.sqrt(q.shape[3]) * ulp(score, "float32") * size
        error = _largest_finite(getattr(baseline, name) - getattr(reference, name))
        allowed[name] = np.maximum(BASELINE_FACTOR * error, floor)
    return allowed


def _largest_finite(errors: np.ndarray) -> float:
    """Where the baseline itself overflows, that must not excuse everything else."""
    finite = np.abs(errors[np.isfinite(errors)])
    return float(finite.max()) if finite.size else 0.0


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
    causal: bool,
    scale: float,
) -> tuple[dict[str, np.ndarray], float]:
    """The sums of the absolute terms behind each element of each tensor, and the largest score."""
    group = q.shape[1] // k.shape[1]
    q, grad = q.astype(np.float64), grad_out.astype(np.float64)
    keys = np.repeat(k, group, axis=1).astype(np.float64)
    values = np.repeat(v, group, axis=1).astype(np.float64)
    lse = np.where(np.isneginf(reference.lse), 0.0, reference.lse)[..., None]
    seen = visible(q.shape[2], k.shape[2], causal=causal)
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
    return sizes, float(np.abs(scores).max())
