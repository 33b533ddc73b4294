"""What a layer asks of a machine, by formula: its attention, and the projections around it.

B batch, S length, D width, N query heads, K kv heads, H head dimension. A projection costs 2
operations for each token and weight in the forward pass, and twice that in the backward pass, for
the gradients of its input and of its weight. Masks, rotary positions and softmax are not counted.
"""

from assay.subjects.layer_inputs import width
from assay.workloads import work
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import ELEMENT_BYTES, Work

SOURCES = {
    "forward_flops": "formula: 4 D H (N + K) per token for projections, 4 H per visible pair and "
    "query head for attention",
    "backward_flops": "formula: 2 times the forward's for projections, 2.5 times for attention",
    "forward_bytes": "formula: x and weights read once, out written once",
    "backward_bytes": "formula: x, weights and the gradient of out read once, the gradients of x "
    "and of the weights written once",
    "kv_cache_bytes": "formula: k and v of this workload",
}


def of(spec: WorkloadSpec) -> Work:
    """One forward and one backward pass, with the causal mask."""
    length = spec.query_length
    pairs = spec.batch * int(work.keys_per_query(length, spec.key_length, causal=True).sum())
    attention = work.of_pairs(spec, pairs)
    weights = 2 * width(spec) * spec.head_dim * (spec.heads + spec.kv_heads)
    projections = 2 * spec.batch * length * weights
    element = ELEMENT_BYTES[spec.dtype]
    states = element * spec.batch * length * width(spec)
    return Work(
        forward_flops=projections + attention.forward_flops,
        backward_flops=2 * projections + attention.backward_flops,
        forward_bytes=2 * states + element * weights,
        backward_bytes=3 * states + 2 * element * weights,
        kv_cache_bytes=attention.kv_cache_bytes,
    )
