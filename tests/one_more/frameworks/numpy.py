"""Plain NumPy on the CPU, without gradients."""

import time
import zlib
from contextlib import contextmanager

import numpy as np

from assay.instruments.reading import Peak, Reading


def place(array, dtype, device, layout="plain"):
    return np.array(array, dtype=dtype)


def numpy(array):
    return np.asarray(array, np.float64)


def bits(array):
    return np.ascontiguousarray(array).tobytes()


def times(array, factor):
    return array * np.asarray(factor, array.dtype)


def checksum(array):
    return zlib.crc32(bits(array))


def marks(array, device):
    return np.asarray(array)


def taken(array, index):
    return array[tuple(index)]


def all_finite(array):
    return bool(np.isfinite(array).all())


def swapped(array, first, second):
    return np.swapaxes(array, first, second)


def expanded(array, shape):
    return np.broadcast_to(array, shape)


def tiled(array, count):
    return np.tile(array, (count,) + (1,) * (array.ndim - 1))


def stretched(array, axis, length):
    return np.resize(array, (*array.shape[:axis], length, *array.shape[axis + 1 :]))


def overwrite(array, values):
    array[...] = values
    return array


def is_array(value):
    return isinstance(value, np.ndarray)


def dtype_name(array):
    return str(array.dtype)


def layouts():
    return ()


@contextmanager
def poisoned(device):
    yield False


@contextmanager
def annotated(name, device):
    yield


def gradients(call, inputs, grad_out, wanted=None):
    raise NotImplementedError("NumPy has no gradients")


pullback = gradients
trained = gradients


def device_overhead(device):
    return None


def synchronize(device):
    return None


def empty_cache(device):
    return None


def out_of_memory(error):
    return isinstance(error, MemoryError)


def device_lost(error):
    return False


class Clock:
    source, launch_ms = "host clock, by NumPy's framework", None

    def time(self, work):
        start = time.perf_counter()
        result = work()
        return (time.perf_counter() - start) * 1e3, result


def clock(device):
    return Clock()


def flusher(device):
    return lambda: "caches as they are"


def delay(device, wait_ms):
    return lambda: time.sleep(wait_ms / 1e3)


def peak(call, inputs, grad_out=None, device="cpu"):
    return Peak(value=None, reason="NumPy reports no peak")


def saved_bytes(call, inputs, options=None):
    return Reading(value=None, reason="NumPy saves nothing")


def operations(call, inputs):
    return []


def input_copies(call, inputs):
    return Reading(value=None, reason="NumPy does not say")
