"""Threads of NumPy's matrix products.

Those of small matrices take longer in several threads than in one, and on a busy machine twenty
times as long: threads that have nothing to do wait busily for one that has no core. Only the
OpenBLAS that NumPy's own wheels bring along is told; frameworks have libraries of their own.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np

_GET, _SET = "scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"
_bundled = Path(np.__file__).parent.parent / "numpy.libs"


@contextmanager
def single_thread() -> Iterator[None]:
    """Within it, matrix products of NumPy have one thread, where that can be said."""
    library = _openblas()
    before = threads()
    if library and before:
        getattr(library, _SET)(1)
    try:
        yield
    finally:
        if library and before:
            getattr(library, _SET)(before)


def threads() -> int | None:
    """Threads that matrix products of NumPy have now; None where that is not known."""
    library = _openblas()
    return int(getattr(library, _GET)()) if library else None


@cache
def _openblas() -> ctypes.CDLL | None:
    for file in sorted(_bundled.glob("libscipy_openblas64_*")):
        with suppress(OSError):
            library = ctypes.CDLL(str(file))  # the one that is loaded already
            if hasattr(library, _GET) and hasattr(library, _SET):
                return library
    return None
