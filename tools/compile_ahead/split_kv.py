"""Compile the decode kernels for sm_90 without a GPU: that they compile and fit.

    python -m tools.compile_ahead.split_kv

Every layout with few and with many sequences, in pages and in one piece, and latents of every
width. Exit code 1 if something does not compile, does not fit or spills more than a few bytes.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from assay.attention.decode._split_kv.kernel import decode_kernel
from assay.attention.decode._split_kv.launch import Launch, plan, plan_latent
from assay.attention.decode._split_kv.refusals import GROUP, STORED
from tools.compile_ahead.binary_usage import cuda_usage

FORMATS = (
    ("whole", "whole"), ("whole", "e4m3"), ("whole", "e5m2"), ("e4m3", "whole"), ("e4m3", "e4m3"),
    ("int8", "int8"), ("int4", "int4"),
)  # fmt: skip
LATENTS = ((16, 512, 64), (128, 512, 64), (12, 256, 0), (12, 256, 32), (12, 128, 0))
_SHARED_BYTES = 232448
_FEW_SPILLED = 32  # bytes of a thread, outside the loop over the keys
_H200 = 132  # processors
_TYPES = {torch.bfloat16: "bf16", torch.float32: "fp32", torch.int16: "i16", torch.int32: "i32"}

Case = tuple[Any, ...]


def cases() -> Iterator[Case]:
    """Formats or a latent, a head dimension, sequences, new tokens and the size of pages."""
    for formats in FORMATS:
        yield (*formats, 128, 64, 1, 0)
        yield (*formats, 128, 1, 1, 16)
        yield (*formats, 64, 2, 16, 0)
    for latent in LATENTS:
        yield ("latent", *latent, 0)
    yield ("latent", *LATENTS[0], 64)


def planned(case: Case) -> Launch:
    """The launch of a case, on shapes without memory."""
    with torch.device("meta"):
        pages = lengths = None
        if case[0] == "latent":
            _, heads, width, rope, page = case
            rows = torch.empty(64, page or 8192, width + rope, dtype=torch.bfloat16)
            q = torch.empty(64, heads, 1, width + rope, dtype=torch.bfloat16)
            if page:
                pages = torch.empty(64, 128, dtype=torch.int32)
                lengths = torch.empty(64, dtype=torch.int32)
            return plan_latent(
                q, rows, value_width=width, scale=0.1, pages=pages, lengths=lengths,
                processors=_H200,
            )  # fmt: skip
        keys, values, dim, batch, new, page = case
        length = page or 8192
        streams = _streams("k", keys, batch, length, dim) | _streams(
            "v", values, batch, length, dim
        )
        q = torch.empty(batch, 32, new, dim, dtype=torch.bfloat16)
        if page:
            pages = torch.empty(batch, 512, dtype=torch.int32)
            lengths = torch.empty(batch, dtype=torch.int32)
        return plan(
            q, streams, keys=keys, values=values, scale=0.1, pages=pages, lengths=lengths,
            processors=_H200,
        )  # fmt: skip


def _streams(name: str, form: str, batch: int, length: int, dim: int) -> dict[str, torch.Tensor]:
    if form == "whole":
        return {name: torch.empty(batch, 8, length, dim, dtype=torch.bfloat16)}
    width, groups = (dim // 2 if form == "int4" else dim), (dim // GROUP if "int" in form else 1)
    return {
        name: torch.empty(batch, 8, length, width, dtype=STORED[form]),
        f"{name}_scale": torch.empty(batch, 8, length, groups, dtype=torch.bfloat16),
    }


def compile_case(case: Case) -> tuple[str, bool]:
    """One line about a case, and whether it compiled and fits."""
    launch = planned(case)
    options = {"num_warps": launch.config.warps, "num_stages": launch.config.stages}
    options["maxnreg"] = launch.config.registers
    try:
        compiled = triton.compile(_source(launch), GPUTarget("cuda", 90, 32), options)
    except Exception as error:  # whatever a compiler throws is a result here
        return f"{case}: does not compile: {type(error).__name__}: {error}", False
    registers, spilled = cuda_usage(compiled.asm)
    shared = compiled.metadata.shared
    line = f"{case} {launch.config.name}, {launch.splits} parts: {registers} registers, "
    fits = shared <= _SHARED_BYTES and (spilled or 0) <= _FEW_SPILLED
    return f"{line}{spilled} bytes spilled, {shared} bytes shared", fits


def _source(launch: Launch) -> ASTSource:
    """The kernel with the types and divisibilities that such arguments have."""
    constants, signature, attributes = {**launch.constants, "PLAIN": False}, {}, {}
    names = launch.kernel.arg_names
    if "PLAIN" not in names:
        del constants["PLAIN"]
    for index, (name, value) in enumerate(zip(names, launch.arguments, strict=False)):
        is_step = name.endswith(("_row", "_head", "_block", "_batch"))
        if isinstance(value, torch.Tensor):
            signature[name] = f"*{_TYPES[value.dtype]}"
            attributes[index,] = [["tt.divisibility", 16]]
        elif value is None or (value == 1 and is_step):
            constants[name] = value
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
            if is_step and value % 16 == 0:
                attributes[index,] = [["tt.divisibility", 16]]
    signature |= dict.fromkeys(constants, "constexpr")
    return ASTSource(launch.kernel, {n: signature[n] for n in names}, constants, attributes)


def main() -> int:
    if not isinstance(decode_kernel, triton.runtime.JITFunction):
        # This process interprets (see __init__.py); kernels to compile need one that does not.
        command = [sys.executable, "-m", __spec__.name]
        return subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "0"}).returncode
    print(f"Triton {triton.__version__}, sm_90", flush=True)
    failed = count = 0
    processes = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for line, fits in pool.map(compile_case, cases()):
            print(line, flush=True)
            count, failed = count + 1, failed + (not fits)
    print(f"{count - failed} of {count} compile and fit")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
