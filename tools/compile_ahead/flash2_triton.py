"""Compile the kernels without a GPU, and compare what they need with what the target has.

    python -m tools.compile_ahead.flash2_triton --target sm_90 --quick

Every configuration is compiled for a kind of input that it says it fits; without --quick for all
head dimensions, and the default configurations for every dtype and mask. Prints registers, spills
and shared memory. Exit code 1 if something does not compile or does not fit.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from multiprocessing import get_context
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from assay.attention.sequence.flash2_triton.configs import (
    BY_KERNEL,
    DELTA,
    TARGETS,
    KernelConfig,
    choose,
    padded_head_dim,
)
from assay.attention.sequence.flash2_triton.delta import delta_kernel
from assay.attention.sequence.flash2_triton.dkdv import dkdv_kernel
from assay.attention.sequence.flash2_triton.dq import dq_kernel
from assay.attention.sequence.flash2_triton.forward import forward_kernel
from tools.compile_ahead.binary_usage import cuda_usage, hip_usage

KERNELS = {
    "forward": forward_kernel, "delta": delta_kernel, "dkdv": dkdv_kernel, "dq": dq_kernel
}  # fmt: skip
HEAD_DIMS = (64, 128, 256)
DEFAULT_HEAD_DIMS = (16, 32, 64, 80, 128, 256)
MASKS = (
    ("causal",), (), ("causal", "window"), ("window",), ("lengths",), ("causal", "packed"),
)  # fmt: skip
_BITS = {"fp32": 32, "fp16": 16, "bf16": 16}
_ARCHITECTURES: dict[str, int | str] = {
    "sm_90": 90, "sm_80": 80, "gfx942": "gfx942", "gfx1100": "gfx1100"
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kernel to compile: a configuration, a kind of input and what is masked."""

    config: KernelConfig
    target: str
    dtype: str
    head_dim: int
    masks: tuple[str, ...]

    def __str__(self) -> str:
        masks = "+".join(self.masks) or "full"
        return f"{self.config.name} {self.dtype} d{self.head_dim} {masks}"


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """The result of a case; registers and spills are None where the compiler does not say."""

    case: Case
    seconds: float
    shared_bytes: int | None = None
    registers: int | None = None
    spilled_bytes: int | None = None
    problem: str | None = None

    def __str__(self) -> str:
        usage = (
            f"{self.registers} registers, {self.spilled_bytes} bytes spilled, "
            f"{self.shared_bytes} bytes shared"
        )
        return f"{self.case}: {self.problem or usage} ({self.seconds:.1f} s)"


def cases(target: str, *, quick: bool) -> list[Case]:
    """Every configuration once or, if not quick, in all the ways described above."""
    planned = [Case(config=DELTA, target=target, dtype="bf16", head_dim=HEAD_DIMS[0], masks=())]
    planned += _every_configuration(target, HEAD_DIMS[:1] if quick else HEAD_DIMS)
    if not quick:
        planned += _defaults(target)
    return list(dict.fromkeys(planned))


def _every_configuration(target: str, head_dims: tuple[int, ...]) -> Iterator[Case]:
    masks = cycle(MASKS)
    for kernel in BY_KERNEL.values():
        for config in kernel.values():
            for head_dim in head_dims:
                fits = config.misfit(bits=16, head_dim=head_dim, target=TARGETS[target]) is None
                # With --quick there is one head dimension, so the smallest stands in.
                dim = head_dim if fits or len(head_dims) > 1 else 16
                if fits or dim != head_dim:
                    yield Case(
                        config=config, target=target, dtype="bf16", head_dim=dim, masks=next(masks)
                    )


def _defaults(target: str) -> Iterator[Case]:
    for dtype, bits in _BITS.items():
        for head_dim in DEFAULT_HEAD_DIMS:
            yield Case(config=DELTA, target=target, dtype=dtype, head_dim=head_dim, masks=())
            for kernel in BY_KERNEL:
                config = choose(kernel, bits=bits, head_dim=head_dim, target=TARGETS[target])
                every_mask = dtype == "bf16" and head_dim == 128
                for masks in MASKS if every_mask else MASKS[:1]:
                    yield Case(
                        config=config, target=target, dtype=dtype, head_dim=head_dim, masks=masks
                    )


def compile_case(case: Case) -> Compiled:
    """Compile one case and read what it needs."""
    started = time.perf_counter()
    backend = TARGETS[case.target].backend
    target = GPUTarget(backend, _ARCHITECTURES[case.target], TARGETS[case.target].warp_threads)
    options = {"num_warps": case.config.warps, "num_stages": case.config.stages}
    try:
        compiled = triton.compile(_source(case), target=target, options=options)
    except Exception as error:  # whatever a compiler throws is a result here
        problem = f"does not compile: {type(error).__name__}: {error}"
        return Compiled(case=case, seconds=time.perf_counter() - started, problem=problem)
    shared, limit = compiled.metadata.shared, TARGETS[case.target].shared_bytes
    usage = cuda_usage(compiled.asm) if backend == "cuda" else hip_usage(compiled.asm)
    return Compiled(
        case=case,
        seconds=time.perf_counter() - started,
        shared_bytes=shared,
        registers=usage[0],
        spilled_bytes=usage[1],
        problem=f"needs {shared} bytes of shared memory of {limit}" if shared > limit else None,
    )


def _source(case: Case) -> ASTSource:
    """The kernel with the types and divisibilities that contiguous inputs have."""
    kernel = KERNELS[case.config.kernel]
    signature, constants, attributes = {}, _constants(case), {}
    for index, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
            continue
        signature[name] = _type_of(name, case.dtype)
        is_row = name.endswith("_row")
        is_step = is_row or name.endswith(("_batch", "_head"))
        if name.endswith("_ptr") or (is_step and not (is_row and case.head_dim % 16)):
            attributes[(index,)] = [["tt.divisibility", 16]]
    return ASTSource(kernel, signature, constants, attributes)


def _constants(case: Case) -> dict[str, Any]:
    absent = {"window": "window", "lengths": "lengths_ptr", "packed": "cu_q_ptr"}
    constants: dict[str, Any] = {
        name: None for mask, name in absent.items() if mask not in case.masks
    }
    if "packed" not in case.masks:
        constants |= {"cu_k_ptr": None, "sequences": None, "search_steps": None}
    names = KERNELS[case.config.kernel].arg_names
    constants |= {
        **{name: 1 for name in names if name.endswith("_dim")},
        "HEAD_DIM": case.head_dim,
        "CAUSAL": "causal" in case.masks,
        "SPLIT": case.dtype != "fp32",
        "BLOCK_M": case.config.block_m,
        "BLOCK_N": case.config.block_n,
        "BLOCK_D": padded_head_dim(case.head_dim),
    }
    return {name: constants[name] for name in names if name in constants}


def _type_of(name: str, dtype: str) -> str:
    if name in ("lse_ptr", "grad_lse_ptr", "delta_ptr"):
        return "*fp32"
    if name in ("lengths_ptr", "cu_q_ptr", "cu_k_ptr"):
        return "*i32"
    if name.endswith("_ptr"):
        return f"*{dtype}"
    return "fp32" if name.startswith("scale") else "i32"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", choices=TARGETS, default="sm_90")
    parser.add_argument("--quick", action="store_true", help="every configuration once")
    parser.add_argument("--kernel", choices=KERNELS, help="this one alone")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    if not isinstance(forward_kernel, triton.runtime.JITFunction):
        # This process interprets (see __init__.py); kernels to compile need one that does not.
        command = [sys.executable, "-m", __spec__.name, *arguments]
        return subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "0"}).returncode
    planned = [
        case
        for case in cases(options.target, quick=options.quick)
        if options.kernel in (None, case.config.kernel)
    ]
    print(f"Triton {triton.__version__}, {options.target}: {len(planned)} kernels", flush=True)
    failed = 0
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for compiled in pool.map(compile_case, planned):
            print(compiled, flush=True)
            failed += compiled.problem is not None
    print(f"{len(planned) - failed} of {len(planned)} compile and fit")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
