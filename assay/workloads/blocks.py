"""Large arrays, block by block over the machine's cores; the result is the same for any number.

Arrays of up to WHOLE elements are drawn and hashed as one; larger ones in blocks of BLOCK.
"""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

WHOLE = 1 << 24
BLOCK = 1 << 22


def normal(generator: "np.random.Generator", shape: tuple[int, ...]) -> "np.ndarray":
    """Standard normal numbers as float32; each block of a large array has a stream of its own."""
    import numpy as np

    values = np.empty(shape, dtype=np.float32)
    if values.size <= WHOLE:
        return generator.standard_normal(shape, dtype=np.float32)
    key = generator.integers(1 << 63, size=2, dtype=np.uint64)
    flat = values.reshape(-1)

    def draw(number: int) -> None:
        stream = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, number]))
        part = flat[number * BLOCK : (number + 1) * BLOCK]
        stream.standard_normal(out=part, dtype=np.float32)

    _spread(draw, values.size)
    return values


def changed(
    values: "np.ndarray", change: "Callable[[np.ndarray], np.ndarray]"
) -> "np.ndarray":  # float32
    """`change` of every element, which must not look at its neighbours."""
    import numpy as np

    if values.size <= WHOLE:
        return change(values)
    flat = np.ascontiguousarray(values).reshape(-1)
    result = np.empty(flat.shape, dtype=np.float32)

    def one(number: int) -> None:
        part = slice(number * BLOCK, (number + 1) * BLOCK)
        result[part] = change(flat[part])

    _spread(one, flat.size)
    return result.reshape(values.shape)


def content(values: "np.ndarray") -> bytes:
    """What tells the bytes of an array: they themselves, or the digests of a large one's blocks."""
    import numpy as np

    if values.size <= WHOLE:
        return values.tobytes()
    flat = np.ascontiguousarray(values).reshape(-1)
    found = [b""] * (-(-flat.size // BLOCK))

    def one(number: int) -> None:
        part = flat[number * BLOCK : (number + 1) * BLOCK]
        found[number] = hashlib.blake2b(part, digest_size=32).digest()

    _spread(one, flat.size)
    return b"".join(found)


def _spread(work: Callable[[int], None], size: int) -> None:
    """`work` on the number of every block; NumPy lets other threads run meanwhile."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(work, range(-(-size // BLOCK))))
