"""PyTorch, on the CPU or a CUDA (or ROCm) device."""

from assay.frameworks.torch.arrays import (
    all_finite,
    bits,
    checksum,
    device_lost,
    device_overhead,
    dtype_name,
    empty_cache,
    expanded,
    gradients,
    is_array,
    keep_compiled_in,
    layouts,
    marks,
    may_have_compiled,
    numpy,
    overwrite,
    place,
    poisoned,
    pullback,
    repeatable,
    stretched,
    swapped,
    synchronize,
    taken,
    tiled,
    times,
    trained,
)
from assay.frameworks.torch.copies import input_copies
from assay.frameworks.torch.first_calls import resolve
from assay.frameworks.torch.memory import counted_peak, peak, saved_bytes, workspace_bytes
from assay.frameworks.torch.operators import operations
from assay.frameworks.torch.settings import settings
from assay.frameworks.torch.timing import annotated, captured, clock, delay, flusher

REQUIRES = ("torch",)
IMPORTS_LATER = ("torch.fx.experimental.symbolic_shapes",)  # in the first backward: 0.5 s

__all__ = [
    "all_finite",
    "annotated",
    "bits",
    "captured",
    "checksum",
    "clock",
    "counted_peak",
    "delay",
    "device_lost",
    "device_overhead",
    "dtype_name",
    "empty_cache",
    "expanded",
    "flusher",
    "gradients",
    "input_copies",
    "is_array",
    "keep_compiled_in",
    "layouts",
    "marks",
    "may_have_compiled",
    "numpy",
    "operations",
    "overwrite",
    "peak",
    "place",
    "poisoned",
    "pullback",
    "repeatable",
    "saved_bytes",
    "settings",
    "stretched",
    "swapped",
    "synchronize",
    "taken",
    "tiled",
    "times",
    "trained",
    "workspace_bytes",
]

resolve()  # before any thread of a user's code can make the first call
