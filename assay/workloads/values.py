"""What the numbers of a workload are like: the usual, and the kinds that break kernels.

normal    standard normal
small     a tenth of that in q and k; large: ten times it
huge      scores around 10,000: exp overflows unless the row's largest score is taken off
onehot    one key takes all of a row's weight
ties      few distinct keys, so scores of a row are equal, its largest among them
denormal  v and the gradient below the smallest normal number of float32, or of float16
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from assay.workloads.spec import WorkloadSpec

_HUGE_SCORE = 1e4
_ONEHOT_SCORE = 200.0
_DISTINCT_KEYS = 3
_TINY = {"float32": 2.0**-130, "bfloat16": 2.0**-130, "float16": 2.0**-20}


def shape_values(
    spec: "WorkloadSpec",
    q: "np.ndarray",
    k: "np.ndarray",
    v: "np.ndarray",
    grad_out: "np.ndarray",
) -> tuple["np.ndarray", ...]:
    """q, k, v and grad_out made from standard normal ones, as `spec.values` says."""
    if spec.values in ("small", "large"):
        factor = {"small": 0.1, "large": 10.0}[spec.values]
        q, k = q * factor, k * factor
    elif spec.values == "huge":
        q, k = _huge(q, k, spec.scale)
    elif spec.values == "onehot":
        q = _pointed(k, spec)
    elif spec.values == "ties":
        k = k[:, :, [place % _DISTINCT_KEYS for place in range(k.shape[2])]]
    elif spec.values == "denormal":
        v, grad_out = v * _TINY[spec.dtype], grad_out * _TINY[spec.dtype]
    return q, k, v, grad_out


def _huge(q: "np.ndarray", k: "np.ndarray", scale: float) -> tuple["np.ndarray", "np.ndarray"]:
    """Scaled so that the largest score is _HUGE_SCORE, the same factor on both sides."""
    import numpy as np

    group = q.shape[1] // k.shape[1]
    scores = scale * np.abs(q @ np.repeat(k, group, axis=1).swapaxes(-1, -2)).max()
    factor = np.float32(np.sqrt(_HUGE_SCORE / max(float(scores), 1e-6)))
    return q * factor, k * factor


def _pointed(k: "np.ndarray", spec: "WorkloadSpec") -> "np.ndarray":
    """Each query along one visible key, so long that all its weight falls on that key."""
    import numpy as np

    last = np.arange(spec.query_length) + spec.key_length - spec.query_length
    last = np.clip(last, 0, spec.key_length - 1) if spec.causal else spec.key_length - 1
    target = (np.arange(spec.query_length) * 7) % (last + 1)
    group = spec.heads // spec.kv_heads
    aimed = np.repeat(k, group, axis=1)[:, :, target]
    length = np.square(aimed).sum(axis=-1, keepdims=True)
    return aimed * (_ONEHOT_SCORE / spec.scale / np.maximum(length, 1e-6))
