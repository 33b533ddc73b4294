"""Workloads drawn from a seed: the same bits on every machine and in every framework.

Arrays are float32 that hold only values of the workload's dtype, so that converting them is
exact in any framework, also where NumPy has no such dtype.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from assay.records.schema import WorkloadIdentity
from assay.workloads.spec import WorkloadSpec

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Inputs of one attention call, and the gradient that is sent back through it."""

    spec: WorkloadSpec
    q: "np.ndarray"
    k: "np.ndarray"
    v: "np.ndarray"
    grad_out: "np.ndarray"

    @cached_property
    def identity(self) -> WorkloadIdentity:
        content = hashlib.blake2b(self.spec.dtype.encode(), digest_size=16)
        for array in (self.q, self.k, self.v, self.grad_out):
            content.update(repr(array.shape).encode())
            content.update(array.tobytes())
        return identity(self.spec, content.hexdigest())


def identity(spec: WorkloadSpec, content: str | None = None) -> WorkloadIdentity:
    """How records name a workload; `content` is None while its arrays are not made."""
    return WorkloadIdentity(name=spec.name, spec=spec.as_dict(), content=content)


def make(spec: WorkloadSpec) -> Workload:
    """Standard normal inputs, rounded to the workload's dtype."""
    import numpy as np

    generator = np.random.Generator(np.random.Philox(spec.seed))
    query = (spec.batch, spec.heads, spec.query_length, spec.head_dim)
    key = (spec.batch, spec.kv_heads, spec.key_length, spec.head_dim)

    def draw(shape: tuple[int, ...]) -> "np.ndarray":
        return rounded(generator.standard_normal(shape, dtype=np.float32), spec.dtype)

    return Workload(spec=spec, q=draw(query), k=draw(key), v=draw(key), grad_out=draw(query))


def rounded(values: "np.ndarray", dtype: str) -> "np.ndarray":
    """The nearest values that `dtype` can hold, ties to even, as float32."""
    import numpy as np

    if dtype == "float32":
        return np.asarray(values, dtype=np.float32)
    if dtype == "float16":
        with np.errstate(over="ignore"):  # beyond 65504 float16 is infinite, as in the kernel
            return np.asarray(values, dtype=np.float16).astype(np.float32)
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    nearest = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(
        0xFFFF0000
    )
    # Adding may carry a NaN's payload into an infinity; NaN stays NaN.
    return np.where(np.isnan(values), np.float32(np.nan), nearest.view(np.float32))
