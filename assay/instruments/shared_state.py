"""State that all code of a process shares, as settings that can be read and written back.

Each framework adds its own (`settings()` in assay/frameworks). Generators of random numbers are
written back like the rest, but only a new seed is mentioned: to draw a number is no offence.
"""

import decimal
import gc
import locale
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Begin the names of variables that frameworks set for themselves when they are first used, or that
# all kernels need without a GPU: a module that several of them import sets it once.
_OF_FRAMEWORKS = (
    *("CUBLAS_WORKSPACE_CONFIG", "CUDA_HOME", "CUDA_MODULE_LOADING", "CUDA_ROOT"),
    *("DISABLE_CUPTI_LAZY_REINIT", "KMP_DUPLICATE_LIB_OK", "LIBTPU_", "MOSAIC_GPU_"),
    *("TEARDOWN_CUPTI", "TF_CPP_", "TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TORCH_WARM_POOL", "TPU_"),
    *("TRITON_CACHE_", "TRITON_INTERPRET", "TRITON_LIBDEVICE_PATH", "TRITON_PTXAS_PATH"),
    "XLA_PYTHON_CLIENT_",
)
_MOST_BLOCKS = 256  # of random numbers that a subject may draw in a turn without a remark


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """A part of the state: `read` gives a value that can be compared, `write` puts it back.
    `words` tells a change, and is None where that is not worth a word."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    words: Callable[[Any, Any], str | None] | None = None
    stays: bool = True  # in the turns of the subject that set it when it was loaded

    def change(self, before: Any, after: Any) -> str | None:
        """Tell a change in words that follow "set"."""
        return self.words(before, after) if self.words else f"{self.name} from {before} to {after}"


def values_of(settings: Iterable[Setting]) -> dict[Setting, Any]:
    """The value of each setting that can be read now."""
    values = {}
    for setting in settings:
        try:
            values[setting] = setting.read()
        except Exception:  # such as a working folder that was removed
            continue
    return values


def _write_environment(saved: Mapping[str, str]) -> None:
    for name in _environment().keys() - saved.keys():
        del os.environ[name]
    os.environ.update(saved)


def _environment() -> dict[str, str]:
    return {n: value for n, value in os.environ.items() if not n.startswith(_OF_FRAMEWORKS)}


def _variables(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Names alone: a value may be a secret, and records are published."""
    names = {name for name, _ in before.items() ^ after.items()}
    return f"the environment's {', '.join(sorted(names))}"


def _decimal_context() -> tuple[Any, ...]:
    """The arguments that make such a context; flags, which any computation raises, are left out."""
    now = decimal.getcontext()
    traps = [signal for signal, is_on in now.traps.items() if is_on]
    return now.prec, now.rounding, now.Emin, now.Emax, now.capitals, now.clamp, [], traps


def _write_filters(saved: list[Any]) -> None:
    warnings.filters[:] = saved  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _numpy_generator() -> tuple[Any, ...]:
    kind, key, position, *rest = np.random.get_state()
    return kind, (*key.tolist(), position), *rest


def _write_numpy_generator(saved: tuple[Any, ...]) -> None:
    kind, (*key, position), *rest = saved
    np.random.set_state((kind, key, position, *rest))


def _seeded(words: str) -> Callable[[Any, Any], str | None]:
    """Words for a Mersenne twister that drawing some blocks of numbers does not lead to."""

    def change(before: tuple[Any, ...], after: tuple[Any, ...]) -> str | None:
        twister = random.Random()
        twister.setstate((3, before[1], None))
        for _ in range(_MOST_BLOCKS):
            if twister.getstate()[1][:-1] == after[1][:-1]:
                return None
            twister.getrandbits(32 * len(before[1][:-1]))
        return words

    return change


SETTINGS = (
    Setting(name="environment", read=_environment, write=_write_environment, words=_variables),
    Setting(name="the working folder", read=os.getcwd, write=os.chdir),
    Setting(
        name="the locale",
        read=lambda: locale.setlocale(locale.LC_ALL),
        write=lambda value: locale.setlocale(locale.LC_ALL, value),
    ),
    Setting(
        name="the recursion limit",
        read=sys.getrecursionlimit,
        write=sys.setrecursionlimit,
        words=lambda before, after: (  # Inductor raises it
            f"the recursion limit from {before} to {after}" if after < before else None
        ),
    ),
    Setting(
        name="Python's garbage collection",
        read=gc.isenabled,
        write=lambda on: gc.enable() if on else gc.disable(),
    ),
    Setting(
        name="warning filters",
        read=lambda: list(warnings.filters),
        write=_write_filters,
        words=lambda before, after: None,  # most libraries add some when they are imported
    ),
    Setting(
        name="the decimal context",
        read=_decimal_context,
        write=lambda saved: decimal.setcontext(decimal.Context(*saved)),
        words=lambda before, after: "the decimal context",
    ),
    *(
        Setting(
            name=f"NumPy's handling of {kind}",
            read=lambda kind=kind: np.geterr()[kind],
            write=lambda value, kind=kind: np.seterr(**{kind: value}),
        )
        for kind in np.geterr()
    ),
    Setting(
        name="Python's random numbers",
        read=random.getstate,
        write=random.setstate,
        words=_seeded("Python's random numbers anew"),
        stays=False,
    ),
    Setting(
        name="NumPy's random numbers",
        read=_numpy_generator,
        write=_write_numpy_generator,
        words=_seeded("NumPy's random numbers anew"),
        stays=False,
    ),
)
if hasattr(os, "sched_setaffinity"):
    SETTINGS += (
        Setting(
            name="the CPUs it may run on",
            read=lambda: os.sched_getaffinity(0),
            write=lambda cpus: os.sched_setaffinity(0, cpus),
        ),
    )
