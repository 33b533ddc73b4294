"""Triton kernels of upstreams on a machine without a GPU, through Triton's interpreter.

Triton decides when a kernel is defined whether it is compiled or interpreted, its own library's
when it is imported: wrappers import this file before anything of Triton.
"""

import os
from collections.abc import Callable
from types import SimpleNamespace

import torch
from _upstream import Upstream

from assay.host import Host
from assay.workloads.spec import WorkloadSpec


def only_interpretable(
    upstream: Upstream, spec: WorkloadSpec, host: Host, *, most_scores: int
) -> str | None:
    """Refuse an upstream that is missing or altered; without a GPU also what the interpreter gets
    wrong, and more scores than it computes in seconds, which depends on how large the tiles of a
    kernel are."""
    if problem := upstream.refusal():
        return problem
    if host.accelerators:
        return None
    if spec.dtype == "bfloat16":
        return "Triton's interpreter is wrong in bfloat16; use float16, or a GPU"
    scores = spec.batch * spec.heads * spec.query_length * spec.key_length
    if scores > most_scores:
        return f"{scores} scores take Triton's interpreter too long; use a GPU"
    return None


class _Driver:
    """Stand-in for Triton's driver on a machine without a GPU: the answers that kernels need while
    they are defined and tuned. Of several configurations the first is as fast as any."""

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_target(self) -> SimpleNamespace:
        return SimpleNamespace(backend="cpu", arch=None, warp_size=32)

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return lambda call, quantiles, **options: [1.0] * len(quantiles)

    def get_current_device(self) -> int:
        return 0


if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.runtime import driver

    driver.set_active(_Driver())
