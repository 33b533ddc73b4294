"""Triton kernels that are interpreted on the CPU, which is wrong in bfloat16 without saying so.

Triton decides when a kernel is defined whether it is compiled or interpreted (TRITON_INTERPRET=1),
so a loaded file shows it: its kernels, or those of the modules that it imports from, are objects of
the interpreter. Nothing has to be declared, and a file without Triton is not taken for one.
"""

import sys
from types import ModuleType

WRONG_DTYPE = "bfloat16"
REFUSAL = "Triton's interpreter computes bfloat16 wrongly; it is checked on a GPU"

_INTERPRETER = "triton.runtime.interpreter"
# They hold kernels of their own, or none; and so does the standard library.
_PASSED_OVER = frozenset({"torch", "triton", "jax", "jaxlib", "numpy"}) | sys.stdlib_module_names


def has_interpreted_kernels(module: ModuleType) -> bool:
    """Return whether a module, or one that it takes something from, holds an interpreted kernel."""
    if _INTERPRETER not in sys.modules:
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
        if kind.__module__ == _INTERPRETER:
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
