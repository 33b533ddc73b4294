"""An attention layer with rotary positions in NumPy float64: some rows of its output and gradient.

S length, D width, N query heads, K kv heads, H head dimension, R chosen places. A row of the output
needs its own query only. The gradient of x at a place comes by its query, and by its key and value,
which every later query reads: so the attention of a whole batch row is computed, block by block.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from assay.attention import reference
from assay.attention.reference import Result
from assay.subjects.layers.inputs import LayerInputs

BASE = 10_000.0
_BLOCK_SCORES = 1 << 23


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Of some places, [R, D] each."""

    out: np.ndarray
    grad_x: np.ndarray


def turned(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """x [..., length, heads, H] turned by positions [..., length], as multiplication by
    exp(i angle); the pair is (j, j + half) (Su et al. 2021, arXiv 2104.09864)."""
    half = x.shape[-1] // 2
    wavelengths = BASE ** (np.arange(half) / half)
    angles = np.asarray(positions)[..., None, None] / wavelengths  # [..., length, 1, half]
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], axis=-1)


def rows(inputs: LayerInputs, *, batch: int, places: np.ndarray) -> Rows:
    """Output of a causal layer at these places of one batch row."""
    scale = inputs.spec.head_dim**-0.5
    weights = _weights(inputs)
    positions = np.arange(inputs.spec.query_length)
    q = _queries(inputs, batch, positions, weights)
    k, v = _keys_and_values(inputs, batch, weights)
    grad = inputs.grad_out[batch].astype(np.float64)
    grad_heads = _heads_first(_through(grad, weights["out"].swapaxes(1, 2)))

    setting = {"causal": True, "scale": scale}
    by_query = reference.attention(
        *(q[:, :, places], k, v),
        grad_out=grad_heads[:, :, places],
        visible=(positions <= places[:, None])[None, None],
        **setting,
    )
    by_key = reference.attention(
        *(q, k[:, :, places], v[:, :, places]),
        grad_out=grad_heads,
        visible=(places <= positions[:, None])[None, None],
        known=_whole(q, k, v, scale),
        **setting,
    )
    # What turns a gradient back is the turn by the negative angle.
    grad_x = _back(turned(_heads_last(by_query.dq), -places), weights["q"])
    grad_x += _back(turned(_heads_last(by_key.dk), -places), weights["k"])
    grad_x += _back(_heads_last(by_key.dv), weights["v"])
    out = _back(_heads_last(by_query.out), weights["out"].swapaxes(1, 2))
    return Rows(out=out, grad_x=grad_x)


def outputs(inputs: LayerInputs, *, batch: int, places: np.ndarray) -> np.ndarray:
    """The output alone, [R, D], for which nothing but keys and values of a batch row is needed."""
    weights = _weights(inputs)
    result = reference.attention(
        _queries(inputs, batch, places, weights),
        *_keys_and_values(inputs, batch, weights),
        causal=True,
        scale=inputs.spec.head_dim**-0.5,
        visible=(np.arange(inputs.spec.key_length) <= places[:, None])[None, None],
    )
    return _back(_heads_last(result.out), weights["out"].swapaxes(1, 2))


def _weights(inputs: LayerInputs) -> dict[str, np.ndarray]:
    return {name: weight.astype(np.float64) for name, weight in inputs.weights.items()}


def _queries(
    inputs: LayerInputs, batch: int, places: np.ndarray, weights: dict[str, np.ndarray]
) -> np.ndarray:
    """[1, N, R, H], turned."""
    x = inputs.x[batch, places].astype(np.float64)
    return _heads_first(turned(_through(x, weights["q"]), places))


def _keys_and_values(
    inputs: LayerInputs, batch: int, weights: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """[1, K, S, H] each, the keys turned."""
    x = inputs.x[batch].astype(np.float64)
    keys = turned(_through(x, weights["k"]), np.arange(len(x)))
    return _heads_first(keys), _heads_first(_through(x, weights["v"]))


def _through(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x [S, D] by a weight [heads, D, H]: [S, heads, H]."""
    heads, wide, dim = weight.shape
    flat = weight.swapaxes(0, 1).reshape(wide, heads * dim)
    return (x @ flat).reshape(len(x), heads, dim)


def _back(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """y [R, heads, H] by the transpose of a weight [heads, D, H]: [R, D]."""
    heads, wide, dim = weight.shape
    flat = weight.swapaxes(0, 1).reshape(wide, heads * dim)
    return y.reshape(len(y), heads * dim) @ flat.T


def _heads_first(array: np.ndarray) -> np.ndarray:
    """[S, heads, H] as [1, heads, S, H]."""
    return array.swapaxes(0, 1)[None]


def _heads_last(array: np.ndarray) -> np.ndarray:
    return array[0].swapaxes(0, 1)


def _whole(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> Result:
    """Output and LSE of all queries."""
    heads, length = q.shape[1:3]
    size = max(1, _BLOCK_SCORES // (heads * length))

    def block(first: int) -> Result:
        end = min(first + size, length)  # later keys are hidden from all of these
        keys = (k[:, :, :end], v[:, :, :end])
        return reference.attention(q[:, :, first:end], *keys, causal=True, scale=scale)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        blocks = list(threads.map(block, range(0, length, size)))
    return Result(
        out=np.concatenate([block.out for block in blocks], axis=2),
        lse=np.concatenate([block.lse for block in blocks], axis=2),
    )
