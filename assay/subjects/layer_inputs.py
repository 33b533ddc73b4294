"""What a layer is given, drawn from a workload's seed: hidden states, weights, a gradient.

B batch, S length, D width, N query heads, K kv heads, H head dimension; D is N H, as in Gemma 2B.
Numbers are such that q, k and v are about standard normal (LeCun's initialisation). All have the
workload's dtype, so a layer that keeps its weights otherwise does not pay for it here.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from assay.records.schema import WorkloadIdentity
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import content_bytes, map_blocks, rounded, standard_normal
from assay.workloads.workload import identity


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
    """Of the hidden states around a workload's attention."""
    return spec.heads * spec.head_dim


def make(spec: WorkloadSpec) -> LayerInputs:
    """The same bits on every machine."""
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

    return LayerInputs(
        spec=spec,
        x=drawn(states),
        # A sum runs over D into q, k and v, and over N H, which is D too, out of the heads.
        weights={name: drawn(shape, wide**-0.5) for name, shape in shapes.items()},
        grad_out=drawn(states),
    )
