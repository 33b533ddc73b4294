"""Facts from the compiled binary of a Triton kernel: spills, tensor-core instructions.

Compiled kernels are looked for among the objects in memory: where they are kept differs between
Triton's versions, its autotuner and torch's compiler, but what they are does not.
"""

import gc
import re
import sys
from dataclasses import dataclass
from typing import Any

from assay.performance.profile.trace import Kernel

# Hopper, before it, Blackwell; AMD's matrix cores.
_TENSOR_OPERATION = re.compile(r"wgmma\.mma_async|\bmma\.sync|tcgen05\.mma|\bv_s?w?mfma|\bv_s?wmma")
_TEXTS = ("ptx", "amdgcn")
_NOT_OURS = "not a Triton kernel compiled in this process; a library's binary is not read"


@dataclass(frozen=True, kw_only=True)
class Binary:
    """Facts about one kernel; `reason` says why those that are None are not known."""

    spills: int | None = None  # of each thread, in registers
    tensor_operations: int | None = None  # instructions in its text, not how often they run
    reason: str | None = None


def of(kernel: Kernel) -> Binary:
    """The binary behind a kernel that ran, told from namesakes by registers and shared memory."""
    namesakes = [c for c in _compiled() if getattr(c, "name", None) == kernel.name]
    loaded = [compiled for compiled in namesakes if getattr(compiled, "n_regs", None) is not None]
    if not loaded:
        return Binary(reason=_reason(kernel.name))
    fitting = [compiled for compiled in loaded if _fits(compiled, kernel)]
    facts = {_facts(compiled) for compiled in fitting or loaded}
    if len(facts) > 1:
        return Binary(reason=f"{len(facts)} different compiled kernels are called {kernel.name}")
    return facts.pop()


def _compiled() -> list[Any]:
    """All kernels that Triton has compiled or loaded in this process."""
    compiler = sys.modules.get("triton.compiler.compiler")
    if compiler is None:
        return []
    # An object refers to its class, and to ask who does is several times as fast as to look at
    # each. By type: isinstance would ask an object for its class, which some refuse to tell.
    kind = compiler.CompiledKernel
    return [each for each in gc.get_referrers(kind) if type(each) is kind]


def _fits(compiled: Any, kernel: Kernel) -> bool:
    if kernel.registers is not None and compiled.n_regs != kernel.registers:
        return False
    # What the profiler tells may include what the driver reserves for itself in each block.
    return kernel.shared_bytes is None or compiled.metadata.shared <= kernel.shared_bytes


def _facts(compiled: Any) -> Binary:
    text = next((compiled.asm[name] for name in _TEXTS if name in compiled.asm), None)
    count = None if text is None else len(_TENSOR_OPERATION.findall(text))
    reason = "its text is not kept" if text is None else None
    return Binary(spills=compiled.n_spills, tensor_operations=count, reason=reason)


def _reason(name: str) -> str:
    """Reason why nothing is known; a name that mentions tensor cores is evidence, and only that."""
    spoken = re.search(r"gmma|tensorop|mma|sm\d\d", name, re.IGNORECASE)
    return f"{_NOT_OURS}, but its name says {spoken[0]!r}" if spoken else _NOT_OURS
