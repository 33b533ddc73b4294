"""Compile the kernel for an H200 without a GPU, and compare what it needs with what there is.

    python -m tools.compile_ahead.flash_hopper --quick

Every configuration, causal and not, in both dtypes; with --quick in one dtype, causal. Prints
registers, spills and shared memory. Exit code 1 if something does not compile or fit.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from assay.attention.sequence.flash_hopper.forward import ROWS, flash_hopper_forward
from assay.attention.sequence.flash_hopper.launch import BY_NAME, TILE_LAYOUT, Config
from tools.compile_ahead.binary_usage import cuda_usage

SHARED_BYTES = 232448  # of a program on an H200


def compile_config(name: str, dtype: str, causal: bool) -> tuple[str, bool]:
    """One line about a configuration, and whether it compiles and fits."""
    config, started = BY_NAME[name], time.perf_counter()
    try:
        compiled = triton.compile(
            _source(config, dtype, causal),
            target=GPUTarget("cuda", 90, 32),
            options={"num_warps": 4},
        )
    except Exception as error:  # whatever a compiler throws is a result here
        return f"{name} {dtype}: does not compile: {type(error).__name__}: {error}", False
    registers, spilled = cuda_usage(compiled.asm)
    shared = compiled.metadata.shared
    line = (
        f"{name} {dtype} {'causal' if causal else 'full'}: {registers} registers at entry, "
        f"{spilled} bytes spilled, {shared} bytes shared of {SHARED_BYTES}, "
        f"{compiled.asm['ptx'].count('wgmma.mma_async')} matrix instructions "
        f"({time.perf_counter() - started:.1f} s)"
    )
    return line, shared <= SHARED_BYTES


def _source(config: Config, dtype: str, causal: bool) -> GluonASTSource:
    """The kernel with the types and divisibilities that contiguous inputs have."""
    constants = {**config.constants, "CAUSAL": causal}
    rows = {"q_desc": ROWS.value, "k_desc": config.block_n, "v_desc": config.block_n}
    pointers = {"counter": "*i32", "out_ptr": f"*{dtype}", "lse_ptr": "*fp32"}
    types = pointers | {"scale_log2": "fp32"} | {name: "constexpr" for name in constants}
    types |= {
        name: f"tensordesc<{dtype}[1, 1, {count}, {config.head_dim}],{TILE_LAYOUT!r}>"
        for name, count in rows.items()
    }
    names = flash_hopper_forward.arg_names
    attributes = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(names)
        if name in pointers or name in ("out_batch", "out_head", "out_row")
    }
    signature = {name: types.get(name, "i32") for name in names}
    return GluonASTSource(flash_hopper_forward, signature, constants, attributes)


def assembler() -> str:
    """The release of the assembler that Triton runs for Hopper."""
    text = subprocess.check_output([knobs.nvidia.ptxas.path, "--version"], text=True)
    return text.partition("release ")[2].partition("\n")[0] or "unknown"


def main(arguments: list[str]) -> int:
    """Compile, print a line for each, and say how many do not fit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="bfloat16 and causal only")
    parser.add_argument("--config", choices=BY_NAME, help="this one alone")
    options = parser.parse_args(arguments)
    if knobs.runtime.interpret:
        # Importing flash2_triton sets that where there is no GPU; kernels to compile need another.
        command = [sys.executable, "-m", __spec__.name, *arguments]
        return subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "0"}).returncode
    masks, dtypes = ((True,), ("bf16",)) if options.quick else ((True, False), ("bf16", "fp16"))
    configs = [options.config] if options.config else list(BY_NAME)
    cases = list(product(configs, dtypes, masks))
    print(f"{len(cases)} to compile; Triton {triton.__version__}, ptxas {assembler()}", flush=True)
    workers = min(len(cases), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(compile_config, *zip(*cases, strict=True)))
    print("\n".join(line for line, _ in results))
    failed = sum(not good for _, good in results)
    print(f"{failed} of {len(cases)} do not compile or fit" if failed else "all compile and fit")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
