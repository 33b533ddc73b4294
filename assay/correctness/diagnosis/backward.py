"""Known bugs of backward passes, each as float64 gradients that have it.

P the probabilities, dP = dO Vᵀ, delta = rowsum(O dO), dS = P (dP - delta) (FlashAttention-2,
algorithm 2, arXiv:2307.08691).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assay.correctness.diagnosis.forward import attend
from assay.workloads.spec import WorkloadSpec
from assay.workloads.visibility import visibility_mask
from assay.workloads.workload import Workload

Gradients = Iterator[tuple[str, np.ndarray]]  # the bug in words, and the gradient that has it

_UNMASKED = "the backward ignores the mask: it recomputes weights of keys that the forward hid"
_CAUSAL = "the backward applies a causal mask that the forward does not"
_TOP_LEFT = "the causal mask of the backward is aligned top-left, that of the forward bottom-right"


@dataclass(frozen=True, kw_only=True)
class _Intermediates:
    """Tensors of a backward pass, for each query head."""

    q: np.ndarray  # [B, H, M, D]
    keys: np.ndarray  # [B, H, N, D]
    scores: np.ndarray  # [B, H, M, N], before the mask
    probabilities: np.ndarray  # [B, H, M, N]
    lse: np.ndarray  # [B, H, M, 1]
    grad: np.ndarray  # dO, [B, H, M, D]
    grad_p: np.ndarray  # [B, H, M, N]
    delta: np.ndarray  # [B, H, M, 1]
    blind: np.ndarray  # bool [B, H, M, 1]: rows that see no key in the forward
    masks: dict[str, np.ndarray]  # bool [M, N] by bug: the keys that a wrong backward shows
    scale: float
    group: int

    @property
    def grad_s(self) -> np.ndarray:
        """dS without the scale, [B, H, M, N]."""
        return self.probabilities * (self.grad_p - self.delta)

    def from_scores(self, grad_s: np.ndarray, name: str) -> np.ndarray:
        """Return dq or dk from dS."""
        if name == "dq":
            return self.scale * (grad_s @ self.keys)
        return self.gathered(self.scale * (grad_s.swapaxes(-1, -2) @ self.q))

    def gathered(self, per_query_head: np.ndarray, heads: slice = slice(None)) -> np.ndarray:
        """Add up a kv head's gradient over the query heads of its group, or some of them."""
        return per_query_head.reshape(
            per_query_head.shape[0], -1, self.group, *per_query_head.shape[2:]
        )[:, :, heads].sum(axis=2)


def bugs(workload: Workload, name: str) -> Gradients:
    """Yield the bugs that make the gradient `name` wrong and leave the output right."""
    parts = _intermediates(workload)
    yield from _value_bugs(parts) if name == "dv" else _score_bugs(parts, name)
    if parts.group > 1 and name != "dq":
        yield from _group_bugs(parts, name)


def _intermediates(w: Workload) -> _Intermediates:
    group = w.spec.heads // w.spec.kv_heads
    keys, values = (np.repeat(a, group, axis=1).astype(np.float64) for a in (w.k, w.v))
    right, q, grad = attend(w), w.q.astype(np.float64), w.grad_out.astype(np.float64)
    scores = w.spec.scale * (q @ keys.swapaxes(-1, -2))
    lse = np.where(np.isneginf(right.lse), 0.0, right.lse)[..., None]
    return _Intermediates(
        q=q,
        keys=keys,
        scores=scores,
        probabilities=np.exp(np.where(w.visible, scores, -np.inf) - lse),
        lse=lse,
        grad=grad,
        grad_p=grad @ values.swapaxes(-1, -2),
        delta=(grad * right.out).sum(axis=-1, keepdims=True),
        blind=np.isneginf(right.lse)[..., None],
        masks=_wrong_masks(w.spec),
        scale=w.spec.scale,
        group=group,
    )


def _wrong_masks(spec: WorkloadSpec) -> dict[str, np.ndarray]:
    causal = visibility_mask(spec.query_length, spec.key_length, causal=True)
    masks = {_UNMASKED: np.ones_like(causal), _CAUSAL: causal}
    return masks | {_TOP_LEFT: np.tril(np.ones_like(causal))} if spec.causal else masks


def _recomputed_weights(p: _Intermediates) -> Gradients:
    """Yield P [B, H, M, N] recomputed with another mask than the forward's, normalised by the
    forward's LSE, of a row without keys 0 or -inf, or anew."""
    for bug, mask in p.masks.items():
        scores = np.where(mask, p.scores, -np.inf)
        by_lse = np.exp(np.minimum(scores - p.lse, 700.0))
        yield bug, by_lse
        if p.blind.any():
            yield bug, np.where(p.blind & mask, np.inf, by_lse)
        highest = scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores - np.where(np.isneginf(highest), 0.0, highest))
        total = weights.sum(axis=-1, keepdims=True)
        yield bug, weights / np.where(total == 0, 1.0, total)


def _score_bugs(p: _Intermediates, name: str) -> Gradients:
    """Yield wrong dq or dk."""
    for bug, weights in _recomputed_weights(p):
        yield bug, p.from_scores(weights * (p.grad_p - p.delta), name)
    yield (
        "delta, the row sum of O dO, is missing from dS",
        p.from_scores(p.probabilities * p.grad_p, name),
    )
    yield (
        "delta, the row sum of O dO, is added instead of subtracted",
        p.from_scores(p.probabilities * (p.grad_p + p.delta), name),
    )
    right = p.from_scores(p.grad_s, name)
    yield f"the scale is missing from {name}", right / p.scale
    yield f"the scale is applied twice to {name}", right * p.scale
    yield f"the sign of {name} is wrong", -right
    yield f"{name} is all zeros: no gradient flows back", 0 * right


def _value_bugs(p: _Intermediates) -> Gradients:
    """Yield wrong dv."""

    def dv(weights: np.ndarray) -> np.ndarray:
        return p.gathered(weights.swapaxes(-1, -2) @ p.grad)

    for bug, weights in _recomputed_weights(p):
        yield bug, dv(weights)
    highest = np.where(p.probabilities > 0, p.scores, -np.inf).max(axis=-1, keepdims=True)
    highest = np.where(np.isneginf(highest), 0.0, highest)
    yield (
        "dv uses weights that are not divided by the softmax sum",
        dv(p.probabilities * np.exp(np.minimum(p.lse - highest, 700.0))),
    )
    right = dv(p.probabilities)
    yield "the scale is applied to dv", right * p.scale
    yield "the sign of dv is wrong", -right
    yield "dv is all zeros: no gradient flows back", 0 * right


def _group_bugs(p: _Intermediates, name: str) -> Gradients:
    """Yield dk or dv that is not the sum over the query heads of a group."""
    if name == "dk":
        each = p.scale * (p.grad_s.swapaxes(-1, -2) @ p.q)
    else:
        each = p.probabilities.swapaxes(-1, -2) @ p.grad
    yield (
        f"{name} of a kv head is that of the last query head of its group: overwritten, not summed",
        p.gathered(each, slice(-1, None)),
    )
    yield (
        f"{name} of a kv head is that of the first query head of its group, not the sum over it",
        p.gathered(each, slice(0, 1)),
    )
    yield (
        f"{name} of a kv head is the mean over the query heads of its group, not the sum",
        p.gathered(each) / p.group,
    )
