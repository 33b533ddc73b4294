"""The environment of processes that run cells, and one of them started before a study is read.

Importing torch takes longer than all that `assay bench` does until its first cell. So this imports
next to nothing, and goes by the names on a command line alone.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from assay import devices, plugins
from assay.attention import interpreted
from assay.captures import switched_off
from assay.errors import BadInput
from assay.instruments import forks
from assay.instruments.start_method import finding_us

# Programs of XLA, by their source. Not of a CPU: a home may be shared by CPUs of several kinds.
_XLA_CACHE = Path("~/.cache/assay/xla")


def worker_environment(device: str, *, capture: bool) -> dict[str, str]:
    """Ours, with this checkout importable, nothing printed held back where a crash would lose it,
    XLA kept from taking all memory at once, and on a GPU from compiling again what it has compiled
    before. Triton and Inductor keep that by themselves. Inductor compiles in the cell's process:
    others would start anew for each cell, 5 s for what takes 2. torch asks NVML whether there is a
    GPU: asked by CUDA, as Inductor's import does, no fork of the process that imports it has one.
    Without a GPU Triton interprets, whichever file imports it first.
    """
    added = {
        "PYTHONUNBUFFERED": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", "1"),
    }
    if device != "cpu" and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        added["JAX_COMPILATION_CACHE_DIR"] = str(_XLA_CACHE.expanduser())
    added |= interpreted.chosen(devices.find({})) if device == "cpu" else {}
    added |= {} if capture else {switched_off.VARIABLE: "0"}
    return {**finding_us(os.environ), **added}


def begin_frameworks(names: Sequence[str], device: str | None) -> None:
    """Have the frameworks of implementations imported, on the device that would be chosen; a name
    that is not known is left to whoever reads the study."""
    listed = plugins.listing("frameworks")
    used = set()
    for name in names:
        with suppress(BadInput):
            used.add(plugins.find("sequence", name).literals.get("FRAMEWORK"))
    modules = [
        plugins.module_name(listed[name].path)
        for name in sorted(used & listed.keys())
        if not listed[name].missing
    ]
    has_gpu = any(each.kind != "cpu" for each in devices.find({}))
    chosen = "auto" if has_gpu and device != "cpu" else "cpu"
    if modules:
        forks.begin_imports(modules, worker_environment(chosen, capture=True))
