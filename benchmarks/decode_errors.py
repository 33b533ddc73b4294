"""Errors of a decode kernel in budgets of the check: against float64 on what a cache gives back."""

import numpy as np

from assay.attention import baseline, budget, reference


def errors(
    out: np.ndarray,
    lse: np.ndarray | None,
    *,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    lengths: np.ndarray,
    scale: float,
    dtype: str,
) -> dict[str, float]:
    """The largest error of output and LSE, 1 at the budget; inf where a number is not finite that
    must be, or the reverse.

    out [B, H, T, W] of queries [B, H, T, D] in `dtype`; k and v [B, G, S, D or W] as decoded, of
    which each sequence has `lengths` [B]. New token i of T sees the keys up to length - T + i.
    """
    new, total = q.shape[2], k.shape[2]
    keys = np.arange(total)
    seen = lengths[:, None, None] - new + np.arange(new)[:, None] + 1
    visible = (keys < seen)[:, None]  # [B, 1, T, S]
    written = (keys < lengths[:, None])[:, None, :, None]  # [B, 1, S, 1]
    arrays = {"q": q, "k": np.where(written, k, 0), "v": np.where(written, v, 0)}
    common = {"causal": False, "scale": scale, "visible": visible}
    common["grad_out"] = np.zeros((*q.shape[:3], v.shape[-1]))
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    single = {name: array.astype(np.float32) for name, array in arrays.items()}
    wanted = reference.attention(**wide, **common)
    plain = baseline.attention(**single, **common, dtype=dtype)
    allowed = budget.allowances(wanted, plain, **wide, **common, dtype=dtype)
    measured = {"out": _budgets(out, wanted.out, allowed["out"].largest)}
    if lse is not None:
        limits = allowed["lse"].largest[..., 0]
        measured["lse"] = _budgets(lse, wanted.lse, limits)
    return measured


def _budgets(given: np.ndarray, wanted: np.ndarray, allowed: np.ndarray) -> float:
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(given)) or (given[~finite] != wanted[~finite]).any():
        return float("inf")
    error = np.abs(np.where(finite, given, 0.0) - np.where(finite, wanted, 0.0))
    return float((error / allowed).max())
