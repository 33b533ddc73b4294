"""Numbers of a workload: drawn from a seed, shaped to break kernels, rounded to a dtype, hashed.

normal    standard normal
small     a tenth of that in q and k; large: ten times it
huge      scores around 10,000: exp overflows unless the row's largest score is taken off
onehot    one key takes all of a row's weight
ties      few distinct keys, so scores of a row are equal, its largest among them
denormal  v and the gradient below the smallest normal number of float32, or of float16

Arrays of up to WHOLE elements are drawn and hashed as one. Larger ones are worked on in blocks of
BLOCK over the machine's cores; the result does not depend on how many cores there are.
"""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from assay.workloads.spec import WorkloadSpec


class Float8Kind(NamedTuple):
    """A format of FP8: bits of its mantissa, the exponent of its smallest normal number and its
    largest number."""

    bits: int
    smallest: int
    largest: float


FLOAT8 = {"e4m3": Float8Kind(3, -6, 448.0), "e5m2": Float8Kind(2, -14, 57344.0)}
WHOLE = 1 << 24
BLOCK = 1 << 22

_HUGE_SCORE = 1e4
_ONEHOT_SCORE = 200.0
_DISTINCT_KEYS = 3
_TINY = {"float32": 2.0**-130, "bfloat16": 2.0**-130, "float16": 2.0**-20}


def standard_normal(generator: "np.random.Generator", shape: tuple[int, ...]) -> "np.ndarray":
    """Standard normal numbers as float32; each block of a large array has a stream of its own."""
    import numpy as np

    values = np.empty(shape, dtype=np.float32)
    if values.size <= WHOLE:
        return generator.standard_normal(shape, dtype=np.float32)
    key = generator.integers(1 << 63, size=2, dtype=np.uint64)
    flat = values.reshape(-1)

    def draw(number: int, block: slice) -> None:
        stream = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, number]))
        stream.standard_normal(out=flat[block], dtype=np.float32)

    _for_each_block(draw, values.size)
    return values


def values_of_kind(
    spec: "WorkloadSpec",
    q: "np.ndarray",
    k: "np.ndarray",
    v: "np.ndarray",
    grad_out: "np.ndarray",
) -> tuple["np.ndarray", ...]:
    """Return q, k, v and grad_out of the kind `spec.values`, made from standard normal ones."""
    if spec.values in ("small", "large"):
        factor = {"small": 0.1, "large": 10.0}[spec.values]
        q, k = q * factor, k * factor
    elif spec.values == "huge":
        q, k = _huge(q, k, spec.scale)
    elif spec.values == "onehot":
        q = _onehot_queries(k, spec)
    elif spec.values == "ties":
        k = k[:, :, [position % _DISTINCT_KEYS for position in range(k.shape[2])]]
    elif spec.values == "denormal":
        v, grad_out = v * _TINY[spec.dtype], grad_out * _TINY[spec.dtype]
    return q, k, v, grad_out


def _huge(q: "np.ndarray", k: "np.ndarray", scale: float) -> tuple["np.ndarray", "np.ndarray"]:
    """Scale q and k by one factor so that the largest score is _HUGE_SCORE."""
    import numpy as np

    group = q.shape[1] // k.shape[1]
    scores = scale * np.abs(q @ np.repeat(k, group, axis=1).swapaxes(-1, -2)).max()
    factor = np.float32(np.sqrt(_HUGE_SCORE / max(float(scores), 1e-6)))
    return q * factor, k * factor


def _onehot_queries(k: "np.ndarray", spec: "WorkloadSpec") -> "np.ndarray":
    """Queries that each lie along one visible key, so long that all their weight falls on it."""
    import numpy as np

    last = np.arange(spec.query_length) + spec.key_length - spec.query_length
    last = np.clip(last, 0, spec.key_length - 1) if spec.causal else spec.key_length - 1
    target = (np.arange(spec.query_length) * 7) % (last + 1)
    group = spec.heads // spec.kv_heads
    keys = np.repeat(k, group, axis=1)[:, :, target]
    squared_length = np.square(keys).sum(axis=-1, keepdims=True)
    return keys * (_ONEHOT_SCORE / spec.scale / np.maximum(squared_length, 1e-6))


def rounded(values: "np.ndarray", dtype: str) -> "np.ndarray":
    """The nearest values that `dtype` can hold, ties to even, as float32.

    bfloat16 is rounded by its bits, because NumPy has no such dtype.
    """
    import numpy as np

    if dtype == "float32":
        return np.asarray(values, dtype=np.float32)
    if dtype == "float16":
        with np.errstate(over="ignore"):  # beyond 65504 float16 is infinite, as in the kernel
            return np.asarray(values, dtype=np.float16).astype(np.float32)
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    nearest = ((bits + half) & np.uint32(0xFFFF0000)).view(np.float32)
    # Adding may carry a NaN's payload into an infinity; NaN stays NaN.
    return np.where(np.isnan(values), np.float32(np.nan), nearest)


def truncated_to_tf32(values: "np.ndarray") -> "np.ndarray":
    """The values of float32 as a tensor core takes them in TF32: 10 bits of mantissa, the others
    cut off."""
    import numpy as np

    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    cut = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), cut)


def rounded_to_float8(values: "np.ndarray", kind: str) -> "np.ndarray":
    """The nearest values that FP8 can hold, ties to even, as float32; what is beyond its largest
    number becomes that."""
    import numpy as np

    form = FLOAT8[kind]
    _, exponent = np.frexp(np.abs(values))  # values are below 2 to the exponent
    step = np.ldexp(np.float32(1), np.maximum(exponent - 1, form.smallest) - form.bits)
    return np.clip(np.rint(values / step) * step, -form.largest, form.largest).astype(np.float32)


def map_blocks(
    values: "np.ndarray", function: "Callable[[np.ndarray], np.ndarray]"
) -> "np.ndarray":  # float32
    """Apply an elementwise `function` to all of `values`."""
    import numpy as np

    if values.size <= WHOLE:
        return function(values)
    flat = np.ascontiguousarray(values).reshape(-1)
    result = np.empty(flat.shape, dtype=np.float32)

    def apply(number: int, block: slice) -> None:
        result[block] = function(flat[block])

    _for_each_block(apply, flat.size)
    return result.reshape(values.shape)


def content_bytes(values: "np.ndarray") -> bytes:
    """Bytes that identify an array: its own, or the digests of a large one's blocks."""
    import numpy as np

    if values.size <= WHOLE:
        return values.tobytes()
    flat = np.ascontiguousarray(values).reshape(-1)
    digests = [b""] * (-(-flat.size // BLOCK))

    def hash_block(number: int, block: slice) -> None:
        digests[number] = hashlib.blake2b(flat[block], digest_size=32).digest()

    _for_each_block(hash_block, flat.size)
    return b"".join(digests)


def _for_each_block(work: Callable[[int, slice], None], size: int) -> None:
    """Call `work(number, slice)` for every block, in threads: NumPy releases the GIL."""
    numbers = range(-(-size // BLOCK))
    slices = [slice(number * BLOCK, (number + 1) * BLOCK) for number in numbers]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(work, numbers, slices))
