"""Both Gemma attentions restated in NumPy, a head at a time, with every rounding in its place.

`dtype=None` computes in float64 throughout; "bfloat16" rounds where the modules round, and holds
in float64 what is float32 there. `skipping` names one rounding to leave out, to show that it
matters.
"""

import ml_dtypes
import numpy as np

from assay.subjects.layers.reference import turned

HIDDEN = -2.3819763e38


def exact(array):
    return np.asarray(array).astype(np.float64)


def rounder(dtype, skipping=None):
    """keep(array, step) rounds to `dtype`, but for the step to skip."""
    if dtype in (None, "float32"):
        return lambda array, step=None: array

    def keep(array, step=None):
        if step is not None and step == skipping:
            return array
        return np.asarray(array).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)

    return keep


def attended(q, k, v, mask, *, keep):
    """[B, T, N, H]: softmax over all slots, weights through `keep`."""
    batch, queries, heads = q.shape[:3]
    group = heads // k.shape[2]
    out = np.empty((batch, queries, heads, v.shape[-1]))
    for b in range(batch):
        for head in range(heads):
            scores = q[b, :, head] @ k[b, :, head // group].T
            scores = np.where(np.asarray(mask)[b, 0], scores, HIDDEN)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights = keep(weights / weights.sum(axis=-1, keepdims=True), "weights")
            out[b, :, head] = weights @ v[b, :, head // group]
    return out


def einsum(equation, x, parameters, *, keep, scale=1.0):
    """With adapters where the parameters have them; `scale` is theirs."""
    w = {name: keep(exact(value)) for name, value in parameters.items()}
    out = keep(np.einsum(equation, x, w["w"]), "projected")
    if "lora_a" not in w:
        return out
    inputs, result = equation.split("->")
    x_axes, axes = inputs.split(",")
    read, written = axes[-2], axes[-1]
    middle = result.replace(written, "r")
    update = keep(np.einsum(f"{x_axes},{axes.replace(written, 'r')}->{middle}", x, w["lora_a"]))
    update = keep(np.einsum(f"{middle},{axes.replace(read, 'r')}->{result}", update, w["lora_b"]))
    return keep(out + keep(update * scale))


def projected(x, parameters, *, suffix="", keep, scale=1.0):
    def through(name, equation):
        return einsum(equation, x, parameters[name + suffix], keep=keep, scale=scale)

    if f"qkv_einsum{suffix}" in parameters:
        return through("qkv_einsum", "BSD,tKDH->tBSKH")
    return [through("q_einsum", "BTD,NDH->BTNH"), *through("kv_einsum", "BSD,tKDH->tBSKH")]


def gemma(parameters, xs, positions, mask, cache=None, *, dtype=None, scale=1.0, skipping=None):
    """Outputs for each expert, None where x is None, and (k, v)."""
    keep = rounder(dtype, skipping)
    parts = [
        projected(exact(x), parameters, suffix=f"_{i}" if i else "", keep=keep, scale=scale)
        for i, x in enumerate(xs)
        if x is not None
    ]
    q, k, v = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    q, k = (keep(turned(x, positions), "turned") for x in (q, k))
    q = keep(q * keep(q.shape[-1] ** -0.5), "scaled")
    if cache is not None:
        k, v = (np.concatenate([exact(a), b], 1) for a, b in zip(cache, (k, v), strict=True))
    encoded = keep(attended(q, k, v, mask, keep=keep), "encoded")
    outputs, start = [], 0
    for i, x in enumerate(xs):
        if x is None:
            outputs.append(None)
            continue
        stretch, start = encoded[:, start : start + x.shape[1]], start + x.shape[1]
        weights = parameters[f"attn_vec_einsum_{i}" if i else "attn_vec_einsum"]
        outputs.append(einsum("BTNH,NHD->BTD", stretch, weights, keep=keep, scale=scale))
    return outputs, (k, v)


def gemma_fast(
    parameters, x, positions, mask, cache=None, *, dtype=None, cache_dtype=None, scale=1.0
):
    """(output, (idx, k, v)); float32 is exact here, so a None cache_dtype does not round."""
    keep, keep_cached = rounder(dtype), rounder(cache_dtype)
    halves = dtype == "bfloat16" and cache_dtype == "bfloat16"
    keep_out = keep if halves else rounder(None)  # anything with float32 in it is float32
    x = exact(x)
    q, k, v = projected(x, parameters, keep=keep, scale=scale)
    q = turned(q, positions) * q.shape[-1] ** -0.5
    k, v = keep_cached(turned(k, positions)), keep_cached(v)
    if cache is None:
        padding = ((0, 0), (0, np.asarray(mask).shape[-1] - x.shape[1]), (0, 0), (0, 0))
        k, v = np.pad(k, padding), np.pad(v, padding)
        idx = np.full(x.shape[0], x.shape[1])
    else:
        idx, old_k, old_v = np.asarray(cache[0]), exact(cache[1]), exact(cache[2])
        old_k[:, idx[0]], old_v[:, idx[0]] = k[:, 0], v[:, 0]
        idx, k, v = idx + 1, old_k, old_v
    encoded = keep_out(attended(q, k, v, mask, keep=keep))
    out = einsum(
        "BTNH,NHD->BTD", encoded, parameters["attn_vec_einsum"], keep=keep_out, scale=scale
    )
    return out, (idx, k, v)
