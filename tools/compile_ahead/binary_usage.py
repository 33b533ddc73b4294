"""Registers and spills of a Triton kernel that was compiled ahead, read from its binary."""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton


def cuda_usage(asm: dict[str, Any]) -> tuple[int | None, int | None]:
    """Registers and stack bytes, from the tool beside Triton's assembler."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    if not tool.is_file():
        return None, None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(asm["cubin"])
        file.flush()
        usage = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    match = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    return (int(match[1]), int(match[2])) if match else (None, None)


def hip_usage(asm: dict[str, Any]) -> tuple[int | None, int | None]:
    """Vector registers and spilled bytes, from the assembly's own notes."""
    registers = re.search(r"\.vgpr_count:\s+(\d+)", asm["amdgcn"])
    spilled = re.search(r"\.private_segment_fixed_size:\s+(\d+)", asm["amdgcn"])
    return (int(registers[1]) if registers else None), (int(spilled[1]) if spilled else None)
