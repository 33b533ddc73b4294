"""Working instructions of a compiled XLA program: fusions, custom calls, products, loops.

Read from its text. What is inside a fusion is part of it and not counted again.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax

from assay.instruments.operation import Operation
from assay.instruments.reading import Reading

_WORKING = ("fusion", "custom-call", "dot", "convolution", "while", "sort", "reduce", "copy")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = .*?[\]})] ([\w\-]+)\(")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_CALLED = re.compile(r"calls=%?([\w.\-]+)")


def operations(call: Callable[..., Any], inputs: Sequence[jax.Array]) -> list[Operation]:
    """Operations of the compiled program; their durations are unknown."""
    text = jax.jit(lambda *arrays: call(*arrays)).lower(*inputs).compile().as_text()
    return operations_in(text or "")


def operations_in(text: str) -> list[Operation]:
    """One for each working instruction, named by what it is; a custom call by its target."""
    lines = text.splitlines()
    fused = {m[1] for line in lines if " fusion(" in line for m in _CALLED.finditer(line)}
    operations, inside = [], ""
    for line in lines:
        if computation := _COMPUTATION.match(line):
            inside = computation[1]
        instruction = _INSTRUCTION.match(line)
        if not instruction or inside in fused or instruction[2] not in _WORKING:
            continue
        target = _TARGET.search(line)
        name = f"{instruction[2]} {target[1]}" if target else instruction[2]
        operations.append(Operation(name=name))
    return operations


def input_copies(call: Callable[..., Any], inputs: Sequence[jax.Array]) -> Reading:
    """Not known: XLA decides in the compiled program."""
    return Reading(value=None, reason="XLA decides what is copied, within its fusions too")
