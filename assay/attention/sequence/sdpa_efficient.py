"""torch's scaled_dot_product_attention, memory-efficient kernel only (CUTLASS; GPUs).

It takes float32 too. No grouped heads up to torch 2.13 (pytorch pull request 191085 adds them):
such a workload is refused, because a copy of k and v for every query head would be timed with it.
"""

from functools import partial

from torch.nn.attention import SDPBackend

from assay.attention.sequence._sdpa import attend, refusal
from assay.attention.tensor_bytes import Held, float32_bytes, is_half, tiled_bytes
from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False
KERNELS = {"cuda": "fmha_cutlass|MemEffAttention"}

attention = partial(attend, backend=SDPBackend.EFFICIENT_ATTENTION)
supports = partial(refusal, backend=SDPBackend.EFFICIENT_ATTENTION)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> Held:
    """Bytes above the inputs, without the backward's workspace; an LSE only in training. Beyond a
    head dimension of 128 the output does not stay in registers and is added up in float32."""
    held = tiled_bytes(spec, training=training)
    if training:
        return held | {"delta": held["lse"]}
    if is_half(spec) and spec.head_dim > 128:
        return {"out": held["out"], "wide_out": float32_bytes(held["out"], spec)}
    return {"out": held["out"]}
