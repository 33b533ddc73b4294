"""torch's scaled_dot_product_attention without fused kernels: the whole score matrix in memory."""

import torch
from torch.nn.attention import SDPBackend

from assay.attention import footprint
from assay.attention.sequence._sdpa import attend, refusal
from assay.host import Host
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import key_bytes, query_bytes

FRAMEWORK = "torch"
KERNELS = {"cuda": "softmax", "rocm": "softmax", "cpu": "softmax"}

BACKEND = SDPBackend.MATH


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return attend(q, k, v, causal=causal, scale=scale, backend=BACKEND)


def supports(spec: WorkloadSpec, host: Host) -> str | None:
    """Asks torch, which knows the limits of its version on this device."""
    return refusal(spec, host, backend=BACKEND)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> dict[str, int]:
    """Bytes above the inputs when most is held: when its softmax looks for rows that see nothing,
    or in the backward of the softmax. All scores are float32; so are q, k and v before them."""
    scores = footprint.FLOAT * footprint.scores(spec)
    query, key = (footprint.wide(size, spec) for size in (query_bytes(spec), key_bytes(spec)))
    every_key = key * (spec.heads // spec.kv_heads)
    forward = {
        "scores": scores,
        "softmax": scores,
        "hidden": footprint.scores(spec),
        "scaled_queries": query,
    }
    if footprint.half(spec):
        forward |= {"wide_queries": query, "wide_keys": key, "wide_values": key}
    if spec.heads != spec.kv_heads:
        forward |= {"repeated_keys": every_key, "repeated_values": every_key}
    if spec.causal and spec.query_length > 1:
        forward["mask"] = footprint.FLOAT * spec.query_length * spec.key_length
    if not training:
        return forward
    backward = {"softmax": scores, "grad_weights": scores, "grad_scores": scores}
    backward |= {"scaled_queries": query, "scaled_keys": every_key, "out": query_bytes(spec)}
    return footprint.largest(forward, backward | {"dv_of_each_head": every_key})
