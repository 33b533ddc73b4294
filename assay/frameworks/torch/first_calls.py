"""First calls of functions that oneMKL resolves when they are first called.

oneMKL 2024.2, which torch is built with, chooses the kernel of each of its vector functions in that
function's first call. Where several threads make it at once, one of them may take a kernel of low
accuracy for its part: relative errors of 1e-4 in half of one tensor, right again from the second
call on (pytorch issue 188792). A fresh process that calls `exp` on a large tensor is where this
happens, 1 time in 160 to 400 on two busy cores, and each of our cells is a fresh process.
"""

import torch

_FUNCTIONS = (
    *("acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "expm1", "lgamma"),
    *("log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh"),
)


def resolve() -> None:
    """Call each function once, on one number: in this thread, and in no other."""
    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for name in _FUNCTIONS:
            getattr(torch, name)(number)
