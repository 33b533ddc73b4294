"""torch's scaled_dot_product_attention, memory-efficient kernel only (CUTLASS; GPUs).

It takes float32 too. No grouped heads up to torch 2.13 (pytorch pull request 191085 adds them):
such a workload is refused, because a copy of k and v for every query head would be timed with it.
"""

import torch
from torch.nn.attention import SDPBackend

from assay.attention import footprint
from assay.attention.sequence._sdpa import attend, refusal
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False
KERNELS = {"cuda": "fmha_cutlass|MemEffAttention"}

BACKEND = SDPBackend.EFFICIENT_ATTENTION


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return attend(q, k, v, causal=causal, scale=scale, backend=BACKEND)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Asks torch, which knows the limits of its version on this device."""
    return refusal(spec, host, backend=BACKEND)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> dict[str, int]:
    """Bytes above the inputs, without the backward's workspace; an LSE only in training. Beyond a
    head dimension of 128 the output does not stay in registers and is added up in float32."""
    held = footprint.tiled(spec, training=training)
    if training:
        return held | {"delta": held["lse"]}
    wide = footprint.half(spec) and spec.head_dim > 128
    return {"out": held["out"]} | ({"wide_out": footprint.wide(held["out"], spec)} if wide else {})
