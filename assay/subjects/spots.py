"""The right answer of a few rows of a timed call, whose inputs were changed for its round.

Calls are looked at often, so this is made to be cheap: keys and values are read once for each of a
few pairs of batch row and head, in blocks that stay in a cache, and signs are applied to the side
that has few rows. Budgets are upper bounds of those of a check (assay/attention/budget.py), times a
slack: a timed answer is to be one of these inputs; how exact it is, a check has said before.
"""

from functools import lru_cache

import numpy as np

from assay.attention import budget
from assay.attention.budget import Allowance, ulp
from assay.attention.precision import PLAIN, TF32, Precision
from assay.attention.reference import Result
from assay.subjects.change import InputChange
from assay.subjects.contract import Expected, Index
from assay.workloads.workload import Workload

_PAIRS, _ROWS = 2, 4  # of batch and head, and rows of each
_BLOCK = 128  # keys: products of so few stay in one thread
SLACK = 4.0
Rows = dict[str, np.ndarray]  # by tensor: [rows, D], or [rows, 1] of budgets


def places(workload: Workload, change: InputChange) -> dict[str, Index]:
    """Places of a few rows of out and dq, [P, 1, rows], none of which is always among them."""
    spec, generator = workload.spec, change.places
    pair = generator.integers(spec.batch * spec.heads, size=(_PAIRS, 1, 1))
    row = generator.integers(spec.query_length, size=(_PAIRS, 1, _ROWS))
    index = (pair // spec.heads, pair % spec.heads, row)
    return {"out": index, "dq": index}


@lru_cache(maxsize=4)  # all that are looked at in one round share it
def spots(
    workload: Workload, change: InputChange, precision: Precision = PLAIN, *, cached: bool = False
) -> Expected:
    """The right values at `places`; keys and values that are `cached` have no signs."""
    index, width = places(workload, change), workload.grad_out.shape[-1]
    times = change.multipliers(workload.spec, values_width=width, cached=cached)
    batches, heads, rows = index["out"]
    pairs = [
        _of_pair(workload, int(b), int(h), r, times, precision)
        for b, h, r in zip(batches.flat, heads.flat, rows[:, 0], strict=True)
    ]
    right, largest = (
        {name: np.stack([part[name] for part in parts])[:, None] for name in index}
        for parts in zip(*pairs, strict=True)
    )
    return Expected(
        result=Result(**right, lse=np.empty(0)),
        allowed={name: Allowance(largest=most, mean=np.inf) for name, most in largest.items()},
        index=index,
    )


def _of_pair(
    workload: Workload, batch: int, head: int, rows: np.ndarray, times: Rows, precision: Precision
) -> tuple[Rows, Rows]:
    """Right rows of one batch row and head, and the largest error of each."""
    spec = workload.spec
    at = (np.array([batch]), np.array([head // (spec.heads // spec.kv_heads)]))
    k, v = workload.k[at][0], workload.v[at][0]
    q = workload.q[batch, head, rows] * times["q"].astype(np.float64)
    grad = workload.grad_out[batch, head, rows].astype(np.float64)
    scores = spec.scale * _products(q * times["k"], k)
    scores = np.where(workload.visible_block(batch, rows=rows), scores, -np.inf)
    row_max = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(row_max), 0.0, row_max))
    row_sum = weights.sum(axis=-1, keepdims=True)
    p = weights / np.where(row_sum == 0.0, 1.0, row_sum)  # a row that sees nothing has none
    out = _sums(p, v) * times["v"]
    grad_p, delta = _products(grad * times["v"], v), (grad * out).sum(axis=-1, keepdims=True)
    dq = spec.scale * _sums(p * (grad_p - delta), k) * times["k"]

    largest_k, largest_v = (
        float(np.abs(a).max() * np.abs(times[name]).max()) for a, name in ((k, "k"), (v, "v"))
    )
    sizes = spec.scale * p * (np.abs(grad_p) + np.abs(delta))  # of the terms of dq
    grad_size = np.abs(grad).sum(axis=-1, keepdims=True) * largest_v
    score = spec.scale * largest_k * np.linalg.norm(q, axis=-1, keepdims=True)
    score = np.maximum(score, np.abs(np.where(np.isfinite(row_max), row_max, 0.0)))
    bounds = {
        "out": (out, largest_v, _quadrature(p) * largest_v, 0.0),
        "dq": (
            dq,
            sizes.sum(axis=-1, keepdims=True) * largest_k,
            _quadrature(sizes) * largest_k,
            2 * spec.scale * grad_size * largest_k,
        ),
    }
    largest = {
        name: SLACK * _rounding(*bound, score, spec.dtype, len(k), spec.head_dim, precision)
        for name, bound in bounds.items()
    }
    return {"out": out, "dq": dq}, largest


def _rounding(
    right: np.ndarray,
    size: np.ndarray | float,
    quadrature: np.ndarray,
    products: np.ndarray | float,
    score: np.ndarray,
    dtype: str,
    keys: int,
    head_dim: int,
    precision: Precision,
) -> np.ndarray:
    """The rounding of each row that no implementation can avoid: see budget.py."""
    score_units = 1.5 * np.sqrt(head_dim) + budget.SCORE_UNITS
    floor = ulp(np.abs(right).max(axis=-1, keepdims=True) + quadrature, dtype)
    floor += (np.sqrt(keys) + budget.EXP_UNITS) * ulp(size, "float32")
    floor += score_units * (ulp(score, "float32") * size + ulp(products, "float32"))
    scores_in = TF32 if precision.is_tf32(dtype) else dtype
    if scores_in != "float32":
        floor += budget.HALF_SCORE_UNITS * ulp(score, scores_in) * quadrature
    if scores_in == TF32:
        floor += budget.TF32_UNITS * ulp(quadrature, TF32)
    if precision.format:
        floor += ulp(quadrature, precision.format)
    return floor


def _quadrature(terms: np.ndarray) -> np.ndarray:
    return np.sqrt(np.square(terms).sum(axis=-1, keepdims=True))


def _products(few: np.ndarray, many: np.ndarray) -> np.ndarray:
    """Products [rows, N] of rows [rows, D] and [N, D]."""
    blocks = (many[at : at + _BLOCK] for at in range(0, len(many), _BLOCK))
    return np.concatenate([few @ block.astype(np.float64).T for block in blocks], axis=1)


def _sums(weights: np.ndarray, many: np.ndarray) -> np.ndarray:
    """Sums [rows, D] of rows [N, D] by their weights [rows, N]."""
    starts = range(0, len(many), _BLOCK)
    return sum(weights[:, a : a + _BLOCK] @ many[a : a + _BLOCK].astype(np.float64) for a in starts)
