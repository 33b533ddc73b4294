"""Inputs of a layer, drawn from a workload's seed, and the work that they ask for.

B batch, S length, D width, N query heads, K kv heads, H head dimension; D is N H, as in Gemma 2B.
Numbers are such that q, k and v are about standard normal (LeCun's initialisation), q and k times
VALUES for a workload with others. All have the workload's dtype, so a layer that keeps its weights
otherwise does not pay for it here.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from assay.records.schema import ELEMENT_BYTES, WorkloadIdentity
from assay.workloads import work
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import content_bytes, map_blocks, rounded, standard_normal
from assay.workloads.work import Work
from assay.workloads.workload import identity

# Kinds of numbers, by what the weights of q and k are multiplied with: scores then have standard
# deviations of 1, 0.01, 100 and 2,500, the largest of the last about 10,000.
VALUES = {"normal": 1.0, "small": 0.1, "large": 10.0, "huge": 50.0}
# A projection costs 2 operations for each token and weight in the forward pass, and twice that in
# the backward pass, for the gradients of its input and of its weight. Masks, rotary positions and
# softmax are not counted.
WORK_FORMULAS = {
    "forward_flops": "formula: 4 D H (N + K) per token for projections, 4 H per visible pair and "
    "query head for attention",
    "backward_flops": "formula: 2 times the forward's for projections, 2.5 times for attention",
    "forward_bytes": "formula: x and weights read once, out written once",
    "backward_bytes": "formula: x, weights and the gradient of out read once, the gradients of x "
    "and of the weights written once",
    "kv_cache_bytes": "formula: k and v of this workload",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerInputs:
    """float32 arrays that hold only values of the workload's dtype."""

    spec: WorkloadSpec
    x: np.ndarray  # [B, S, D]
    weights: dict[str, np.ndarray]  # q [N, D, H], k and v [K, D, H], out [N, H, D]
    grad_out: np.ndarray  # [B, S, D], sent back through the layer

    @cached_property
    def identity(self) -> WorkloadIdentity:
        content = hashlib.blake2b(b"layer " + self.spec.dtype.encode(), digest_size=16)
        for array in (self.x, *self.weights.values(), self.grad_out):
            content.update(repr(array.shape).encode())
            content.update(content_bytes(array))
        return identity(self.spec, content.hexdigest())


def width(spec: WorkloadSpec) -> int:
    """Width of the hidden states around a workload's attention."""
    return spec.heads * spec.head_dim


def make(spec: WorkloadSpec) -> LayerInputs:
    """Draw the inputs; the same bits on every machine."""
    generator = np.random.Generator(np.random.Philox((spec.seed, 1)))
    wide, dim = width(spec), spec.head_dim
    shapes = {
        "q": (spec.heads, wide, dim),
        "k": (spec.kv_heads, wide, dim),
        "v": (spec.kv_heads, wide, dim),
        "out": (spec.heads, dim, wide),
    }
    to_dtype = partial(rounded, dtype=spec.dtype)
    states = (spec.batch, spec.query_length, wide)

    def drawn(shape: tuple[int, ...], size: float = 1.0) -> np.ndarray:
        return map_blocks(np.float32(size) * standard_normal(generator, shape), to_dtype)

    # A sum runs over D into q, k and v, and over N H, which is D too, out of the heads.
    sizes = dict.fromkeys(shapes, wide**-0.5)
    sizes["q"] = sizes["k"] = wide**-0.5 * VALUES[spec.values]
    return LayerInputs(
        spec=spec,
        x=drawn(states),
        weights={name: drawn(shape, sizes[name]) for name, shape in shapes.items()},
        grad_out=drawn(states),
    )


def work_of(spec: WorkloadSpec) -> Work:
    """Work of one forward and one backward pass, with the causal mask."""
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
