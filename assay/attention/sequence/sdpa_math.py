"""torch's scaled_dot_product_attention without fused kernels: the whole score matrix in memory."""

from functools import partial

from torch.nn.attention import SDPBackend

from assay.attention.sequence._sdpa import attend, refusal
from assay.attention.tensor_bytes import (
    FLOAT32_BYTES,
    Held,
    float32_bytes,
    is_half,
    largest,
    score_count,
)
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import key_bytes, query_bytes

FRAMEWORK = "torch"
KERNELS = {"cuda": "softmax", "rocm": "softmax", "cpu": "softmax"}

attention = partial(attend, backend=SDPBackend.MATH)
supports = partial(refusal, backend=SDPBackend.MATH)


def memory(spec: WorkloadSpec, *, training: bool, device: str) -> Held:
    """Bytes above the inputs at the peak: when its softmax looks for rows that see nothing, or in
    the backward of the softmax. All scores are float32; so are q, k and v before them."""
    scores = FLOAT32_BYTES * score_count(spec)
    query, key = (float32_bytes(size, spec) for size in (query_bytes(spec), key_bytes(spec)))
    every_key = key * (spec.heads // spec.kv_heads)
    forward = {
        "scores": scores,
        "softmax": scores,
        "hidden": score_count(spec),  # of one byte each
        "scaled_queries": query,
    }
    if is_half(spec):
        forward |= {"wide_queries": query, "wide_keys": key, "wide_values": key}
    if spec.heads != spec.kv_heads:
        forward |= {"repeated_keys": every_key, "repeated_values": every_key}
    if spec.causal and spec.query_length > 1:
        forward["mask"] = FLOAT32_BYTES * spec.query_length * spec.key_length
    if not training:
        return forward
    backward = {"softmax": scores, "grad_weights": scores, "grad_scores": scores}
    backward |= {"scaled_queries": query, "scaled_keys": every_key, "out": query_bytes(spec)}
    return largest(forward, backward | {"dv_of_each_head": every_key})
