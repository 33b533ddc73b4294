"""Attention in NumPy."""

import numpy as np

FRAMEWORK = "numpy"
BACKWARD = False


def attention(q, k, v, *, causal, scale):
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2) * scale  # [B, H, M, N]
    if causal:
        rows, columns = scores.shape[-2:]
        hidden = np.triu(np.ones((rows, columns), bool), columns - rows + 1)
        scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).astype(q.dtype)
