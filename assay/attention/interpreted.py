"""Triton kernels that are interpreted on the CPU, which is wrong in bfloat16 without saying so.

Triton decides when a kernel is defined whether it is compiled or interpreted (TRITON_INTERPRET=1),
and of its own functions when it is imported. So the variable is set for processes without a GPU
before they import anything, and a loaded file shows the choice: its kernels, or those of the
modules that it imports from, are objects of the interpreter. Nothing has to be declared, and a file
without Triton is not taken for one.
"""

import os
import sys
from collections.abc import Iterable
from types import ModuleType

from assay.devices import Device

WRONG_DTYPE = "bfloat16"
REFUSAL = "Triton's interpreter computes bfloat16 wrongly; it is checked on a GPU"

VARIABLE = "TRITON_INTERPRET"
_NO_GPU = "0 active drivers ("
_OUTSIDE = "Cannot call @triton.jit'd outside of the scope of a kernel"
_NOT_SET = f"Triton finds no GPU; set {VARIABLE}=1 before anything imports triton, or use a GPU"
_SET_LATE = f"triton was imported before {VARIABLE} was set; set {VARIABLE}=1 before anything does"
_ASKS = (
    "Triton's interpreter runs, but triton.autotune without do_bench=, or driver.active, asks for "
    "a GPU; leave it out on a CPU, or use a GPU"
)
INTERPRETER = "triton.runtime.interpreter"
# They hold kernels of their own, or none; and so does the standard library.
_PASSED_OVER = frozenset({"torch", "triton", "jax", "jaxlib", "numpy"}) | sys.stdlib_module_names


def chosen(devices: Iterable[Device]) -> dict[str, str]:
    """Return the variable that has Triton interpret, where there is no GPU and nobody set it."""
    has_gpu = any(device.kind != "cpu" for device in devices)
    return {} if has_gpu or VARIABLE in os.environ else {VARIABLE: "1"}


def refusal_of(error: BaseException | None) -> str | None:
    """Return what to do where Triton has no GPU, or was imported too early to interpret, which no
    kernel is to blame for; None for any other error."""
    while error is not None:
        name, text = type(error).__name__, str(error)
        if name == "InterpreterError" and _OUTSIDE in text:
            return _SET_LATE
        if name == "RuntimeError" and text.startswith(_NO_GPU):
            own = getattr(sys.modules.get("triton.language"), "max", None)
            return _ASKS if _is_interpreted(own) else _NOT_SET
        error = error.__cause__
    return None


def has_interpreted_kernels(module: ModuleType) -> bool:
    """Return whether a module, or one that it takes something from, holds an interpreted kernel."""
    if INTERPRETER not in sys.modules:
        return False
    seen, waiting = {module.__name__}, [module]
    while waiting:
        for value in list(vars(waiting.pop()).values()):
            if _is_interpreted(value):
                return True
            name = value.__name__ if isinstance(value, ModuleType) else _module_name(value)
            if name not in seen and name in sys.modules and _is_followed(name):
                seen.add(name)
                waiting.append(sys.modules[name])
    return False


def _is_interpreted(value: object) -> bool:
    """True for an interpreted kernel, also within decorators such as autotune, which hold it."""
    while value is not None:
        kind = type(value)
        if kind.__module__ == INTERPRETER:
            return kind.__name__ == "InterpretedFunction"
        if not kind.__module__.startswith("triton."):
            return False
        value = getattr(value, "fn", None)
    return False


def _module_name(value: object) -> str:
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def _is_followed(name: str) -> bool:
    """False for others' packages, and for `assay` itself, which has names of all its rooms."""
    return name != "assay" and name.partition(".")[0] not in _PASSED_OVER
