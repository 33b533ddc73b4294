"""Well-known mistakes of backward passes, each as gradients computed with it, in float64.

P the probabilities, dP = dO Vᵀ, delta = rowsum(O dO), dS = P (dP - delta) (FlashAttention-2,
algorithm 2, arXiv:2307.08691).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assay.correctness.diagnosis.suspects import attend
from assay.workloads.visibility import visibility_mask
from assay.workloads.workload import Workload


@dataclass(frozen=True, kw_only=True)
class GradientSuspect:
    """A mistake in words, and the one gradient that it makes wrong."""

    cause: str
    gradient: np.ndarray


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What a backward pass computes, [B, H, ...] for each query head."""

    q: np.ndarray
    keys: np.ndarray
    scores: np.ndarray  # before the mask
    probabilities: np.ndarray
    lse: np.ndarray
    grad: np.ndarray
    grad_p: np.ndarray
    delta: np.ndarray
    causal: np.ndarray  # [M, N] of bool: what a causal mask would let through
    scale: float
    group: int

    def sums(self, grad_s: np.ndarray, name: str) -> np.ndarray:
        """dq or dk from dS."""
        if name == "dq":
            return self.scale * (grad_s @ self.keys)
        return self.gather(self.scale * (grad_s.swapaxes(-1, -2) @ self.q))

    def gather(self, per_query_head: np.ndarray, pick: slice = slice(None)) -> np.ndarray:
        """A kv head's gradient from the query heads of its group, or some of them."""
        batch, heads, length, dim = per_query_head.shape
        grouped = per_query_head.reshape(batch, heads // self.group, self.group, length, dim)
        return grouped[:, :, pick].sum(axis=2)


def suspects(workload: Workload, name: str) -> Iterator[GradientSuspect]:
    """The mistakes that would make the gradient `name` wrong while the output is right."""
    parts = _parts(workload)
    named = _of_dv(parts) if name == "dv" else _of_scores(parts, name)
    for cause, gradient in (*named, *_of_groups(parts, name)):
        yield GradientSuspect(cause=cause, gradient=gradient)


def _parts(w: Workload) -> _Parts:
    group = w.spec.heads // w.spec.kv_heads
    keys, values = (np.repeat(a, group, axis=1).astype(np.float64) for a in (w.k, w.v))
    right, q, grad = attend(w), w.q.astype(np.float64), w.grad_out.astype(np.float64)
    scores = w.spec.scale * (q @ keys.swapaxes(-1, -2))
    lse = np.where(np.isneginf(right.lse), 0.0, right.lse)[..., None]
    return _Parts(
        q=q,
        keys=keys,
        scores=scores,
        probabilities=np.exp(np.where(w.visible, scores, -np.inf) - lse),
        lse=lse,
        grad=grad,
        grad_p=grad @ values.swapaxes(-1, -2),
        delta=(grad * right.out).sum(axis=-1, keepdims=True),
        causal=visibility_mask(w.spec.query_length, w.spec.key_length, causal=True),
        scale=w.spec.scale,
        group=group,
    )


Named = Iterator[tuple[str, np.ndarray]]


_IGNORES = "the backward ignores the mask: it recomputes weights of keys that the forward hid"
_CAUSAL = "the backward masks as if it were causal, which the forward is not"


def _other_masks(p: _Parts) -> Iterator[tuple[str, np.ndarray]]:
    """Weights that a backward recomputes with another mask than the forward's: normalised by the
    forward's LSE, or anew."""
    everything = np.ones_like(p.causal)
    for cause, mask in ((_IGNORES, everything), (_CAUSAL, p.causal)):
        scores = np.where(mask, p.scores, -np.inf)
        yield cause, np.exp(np.minimum(scores - p.lse, 700.0))
        highest = scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores - np.where(np.isneginf(highest), 0.0, highest))
        total = weights.sum(axis=-1, keepdims=True)
        yield cause, weights / np.where(total == 0, 1.0, total)


def _of_scores(p: _Parts, name: str) -> Named:
    right = p.probabilities * (p.grad_p - p.delta)
    for cause, weights in _other_masks(p):
        yield cause, p.sums(weights * (p.grad_p - p.delta), name)
    yield (
        "delta, the row sum of O dO, is missing from dS",
        p.sums(p.probabilities * p.grad_p, name),
    )
    yield (
        "delta, the row sum of O dO, is added instead of taken off",
        p.sums(p.probabilities * (p.grad_p + p.delta), name),
    )
    yield f"the scale is missing from {name}", p.sums(right, name) / p.scale
    yield f"the scale is applied twice to {name}", p.sums(right, name) * p.scale
    yield f"the sign of {name} is wrong", -p.sums(right, name)
    yield f"{name} is all zeros: nothing is sent back", 0 * p.sums(right, name)


def _of_dv(p: _Parts) -> Named:
    def dv(weights: np.ndarray) -> np.ndarray:
        return p.gather(weights.swapaxes(-1, -2) @ p.grad)

    highest = np.where(p.probabilities > 0, p.scores, -np.inf).max(axis=-1, keepdims=True)
    highest = np.where(np.isneginf(highest), 0.0, highest)
    for cause, weights in _other_masks(p):
        yield cause, dv(weights)
    yield (
        "dv uses weights that are not divided by the normaliser",
        dv(p.probabilities * np.exp(np.minimum(p.lse - highest, 700.0))),
    )
    yield "the scale is applied to dv", dv(p.probabilities) * p.scale
    yield "the sign of dv is wrong", -dv(p.probabilities)
    yield "dv is all zeros: nothing is sent back", 0 * dv(p.probabilities)


def _of_groups(p: _Parts, name: str) -> Named:
    """Gradients of a kv head that do not gather from all of its query heads."""
    if p.group == 1 or name == "dq":
        return
    if name == "dk":
        each = p.scale * ((p.probabilities * (p.grad_p - p.delta)).swapaxes(-1, -2) @ p.q)
    else:
        each = p.probabilities.swapaxes(-1, -2) @ p.grad
    yield (
        f"{name} of a kv head is that of the last query head of its group: overwritten, not summed",
        p.gather(each, slice(-1, None)),
    )
    yield (
        f"{name} of a kv head is that of the first query head of its group, not the sum over it",
        p.gather(each, slice(0, 1)),
    )
    yield (
        f"{name} of a kv head is the mean over the query heads of its group, not the sum",
        p.gather(each) / p.group,
    )
