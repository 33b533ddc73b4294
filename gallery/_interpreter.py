"""Triton kernels of upstreams on a machine without a GPU, through Triton's interpreter."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from assay.host import Host
from assay.workloads.spec import WorkloadSpec

MOST_SCORES = 300_000


def interpreted(spec: WorkloadSpec, host: Host) -> str | None:
    """Refuse what the interpreter gets wrong or takes minutes for; on a GPU, nothing."""
    if host.accelerators:
        return None
    if spec.dtype == "bfloat16":
        return "Triton's interpreter is wrong in bfloat16; use float16, or a GPU"
    scores = spec.batch * spec.heads * spec.query_length * spec.key_length
    if scores > MOST_SCORES:
        return f"{scores} scores take Triton's interpreter too long; use a GPU"
    return None


def interpret_without_gpu() -> None:
    """Have kernels interpreted where there is no GPU. Triton decides when a kernel is defined."""
    import torch

    if torch.cuda.is_available():
        return
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.runtime import driver

    driver.set_active(_Driver())


class _Driver:
    """What kernels ask of Triton's driver while they are defined and tuned, of a machine that has
    none. Of several configurations the first is as fast as any."""

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_current_target(self) -> SimpleNamespace:
        return SimpleNamespace(backend="cpu", arch=None, warp_size=32)

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return lambda call, quantiles, **options: [1.0] * len(quantiles)

    def get_current_device(self) -> int:
        return 0
