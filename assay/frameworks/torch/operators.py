"""Operators of a torch call on the CPU, by torch's profiler.

Everywhere in assay that is torch.autograd.profiler: torch.profiler, which is built on it, imports
Inductor when it starts, 1.8 s here and 3 s on an H200 in each process that profiles.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.profiler import profile

from assay.instruments.operation import Operation

# Operators that compute nothing: they make a view, or memory that others fill.
_NO_WORK = frozenset(
    f"aten::{name}"
    for name in (
        *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"),
        *("view", "_unsafe_view", "_reshape_alias", "as_strided", "alias", "detach", "detach_"),
        *("expand", "expand_as", "transpose", "t", "mT", "permute", "select", "slice", "narrow"),
        *(
            "squeeze",
            "unsqueeze",
            "flatten",
            "unflatten",
            "reshape",
            "split",
            "unbind",
            "lift_fresh",
        ),
        *("resolve_conj", "resolve_neg", "to", "set_", "result_type", "item", "is_nonzero"),
    )
)


def operations(call: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> list[Operation]:
    """Operators of one call, after one that is not profiled, with the time each takes by itself.

    An operator that hands its work on to others encloses them.
    """
    with torch.no_grad():
        call(*inputs)
        with profile() as watched:
            call(*inputs)
    return [
        Operation(name=event.name, duration_us=event.self_cpu_time_total, encloses=_hands_on(event))
        for event in watched.function_events or ()
    ]


def _hands_on(event: Any) -> bool:
    """True where it does no work itself: it only makes views or memory, or its children work."""
    return event.name in _NO_WORK or any(_works(child) for child in event.cpu_children)


def _works(event: Any) -> bool:
    if event.name not in _NO_WORK:
        return True
    return any(_works(child) for child in event.cpu_children)
