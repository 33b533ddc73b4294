"""Workloads drawn from a seed: the same bits on every machine and in every framework."""

from functools import partial
from typing import TYPE_CHECKING, Any

from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import map_blocks, rounded, standard_normal, values_of_kind
from assay.workloads.workload import Workload

if TYPE_CHECKING:
    import numpy as np


def draw(spec: WorkloadSpec) -> Workload:
    """Inputs of the kind that `spec.values` names, rounded to the workload's dtype."""
    import numpy as np

    generator = np.random.Generator(np.random.Philox(spec.seed))
    query = (spec.batch, spec.heads, spec.query_length, spec.head_dim)
    key = (spec.batch, spec.kv_heads, spec.key_length, spec.head_dim)
    normal = [standard_normal(generator, shape) for shape in (query, key, key, query)]
    if spec.layout == "expanded":  # one row of keys and values, seen by the whole batch
        normal[1:3] = [np.broadcast_to(array[:1], array.shape) for array in normal[1:3]]
    to_dtype = partial(rounded, dtype=spec.dtype)
    q, k, v, grad_out = (map_blocks(a, to_dtype) for a in values_of_kind(spec, *normal))
    return Workload(spec=spec, q=q, k=k, v=v, grad_out=grad_out, **_masks(spec, generator))


def _masks(spec: WorkloadSpec, generator: "np.random.Generator") -> dict[str, Any]:
    """The masks that a workload asks for, as arrays."""
    import numpy as np

    masks: dict[str, Any] = {}
    if spec.padded:
        masks["lengths"] = generator.integers(0, spec.key_length + 1, spec.batch, dtype=np.int32)
    if spec.masked:
        shape = (spec.batch, 1, spec.query_length, spec.key_length)
        masks["mask"] = generator.random(shape) < 0.7
    if spec.packed:
        lengths = (spec.query_length, spec.key_length)
        masks["cu_seqlens"] = tuple(_starts(n, spec.packed, generator) for n in lengths)
    return masks


def _starts(total: int, count: int, generator: "np.random.Generator") -> "np.ndarray":
    """Starts of `count` sequences of random lengths, and the end of the last; some may be empty."""
    import numpy as np

    inner = np.sort(generator.integers(0, total + 1, count - 1))
    return np.concatenate(([0], inner, [total])).astype(np.int32)
