"""Copies of q, k and v that torch operators make inside a call.

A baseline that repeats its keys for every query head, or turns them around in memory first, is
slower than it need be; so each operator that only moves values is watched by torch's dispatcher.
Kernels that are not operators (Triton's, a library's inside one call) are not seen.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.autograd.profiler import profile
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from assay.frameworks.torch.dispatch import OperatorWatch
from assay.instruments.reading import Reading

# Operators whose result holds values of their inputs and nothing else, maybe in another dtype.
MOVES = (
    *("clone", "_to_copy", "copy_", "copy", "contiguous", "repeat", "cat", "stack", "roll", "flip"),
    *("index", "index_select", "gather", "take", "index_copy", "slice_scatter", "select_scatter"),
    *("constant_pad_nd", "repeat_interleave", "expand_copy", "view_copy", "permute_copy"),
    *("transpose_copy", "as_strided_copy", "slice_copy"),
)
SOURCE = "torch dispatcher: bytes written by operators that only move values of q, k or v"


class _Watch(OperatorWatch):
    """Follows the memory of the inputs, and of copies made of it, through all operators."""

    def __init__(self, inputs: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.copied: dict[str, int] = {}
        # Weak references keep a storage's identity from being used again, but not its memory.
        self.followed: dict[int, StorageWeakRef] = {}
        for tensor in inputs:
            self._follow(tensor)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in MOVES:
            # What is written to is the first argument of an operator in place, and no source.
            sources = tree_leaves(args[1:] if name.endswith("_") else args)
            if any(self._follows(source) for source in sources):
                self._count(name, result)
        return result

    def _count(self, name: str, result: torch.Tensor) -> None:
        written = result.numel() * result.element_size()
        self.copied[name] = self.copied.get(name, 0) + written
        self._follow(result)

    def _follow(self, tensor: torch.Tensor) -> None:
        reference = StorageWeakRef(tensor.untyped_storage())
        self.followed[reference.cdata] = reference

    def _follows(self, value: Any) -> bool:
        if not isinstance(value, torch.Tensor):
            return False
        return StorageWeakRef(value.untyped_storage()).cdata in self.followed


def input_copies(call: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Reading:
    """Count the bytes of copies that one forward call writes.

    Not known of what torch.compile made: while it is watched, torch runs the program it came from.
    """
    if _compiles(lambda: call(*inputs)):
        return Reading(value=None, reason="torch.compile decides what is copied, in its kernels")
    with torch.no_grad(), _Watch(inputs) as watch:
        call(*inputs)
    named = ", ".join(f"{name} {size}" for name, size in sorted(watch.copied.items()))
    source = f"{SOURCE} ({named})" if named else SOURCE
    return Reading(value=sum(watch.copied.values()), source=source)


def _compiles(run: Callable[[], Any]) -> bool:
    """True where a profile has the ranges that torch.compile leaves there."""
    if "torch._dynamo" not in sys.modules:
        return False
    with torch.no_grad(), profile() as watched:
        run()
    # As they were recorded: to make torch's own list of events takes longer than the call.
    names = {event.name() for event in watched.kineto_results.events()}
    return any("Dynamo" in name or "Compiled" in name for name in names)
