"""Workloads drawn from a seed: the same bits on every machine and in every framework.

Arrays are float32 that hold only values of the workload's dtype, so that converting them is
exact in any framework, also where NumPy has no such dtype.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from assay.records.schema import WorkloadIdentity
from assay.workloads import blocks
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import shape_values
from assay.workloads.visibility import visible, visible_packed

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """Inputs of one attention call, and the gradient that is sent back through it."""

    spec: WorkloadSpec
    q: "np.ndarray"
    k: "np.ndarray"
    v: "np.ndarray"
    grad_out: "np.ndarray"
    lengths: "np.ndarray | None" = None  # [batch] of int32: how many keys of a row are there
    mask: "np.ndarray | None" = None  # [batch, 1, queries, keys] of bool
    cu_seqlens: "tuple[np.ndarray, np.ndarray] | None" = None  # where packed sequences begin

    @cached_property
    def identity(self) -> WorkloadIdentity:
        content = hashlib.blake2b(self.spec.dtype.encode(), digest_size=16)
        marks = (self.lengths, self.mask, *(self.cu_seqlens or ()))
        for array in (self.q, self.k, self.v, self.grad_out, *marks):
            if array is not None:
                content.update(repr(array.shape).encode())
                content.update(blocks.content(array))
        return identity(self.spec, content.hexdigest())

    @cached_property
    def seen(self) -> "np.ndarray":
        """Which keys each query may see, [batch or 1, 1, queries, keys]."""
        import numpy as np

        limits = {"causal": self.spec.causal, "window": self.spec.window}
        if self.cu_seqlens:
            return visible_packed(*self.cu_seqlens, **limits)[None, None]
        seen = visible(self.spec.query_length, self.spec.key_length, **limits)[None, None]
        if self.lengths is not None:
            seen = seen & (np.arange(self.spec.key_length) < self.lengths[:, None, None, None])
        return seen if self.mask is None else seen & self.mask

    def seen_of(
        self, batch: int, *, rows: "np.ndarray | None" = None, columns: "np.ndarray | None" = None
    ) -> "np.ndarray":
        """Of one batch row, which of some keys each of some queries may see; never all at once."""
        import numpy as np

        spec = self.spec
        every_row, every_column = np.arange(spec.query_length), np.arange(spec.key_length)
        rows = every_row if rows is None else rows
        columns = every_column if columns is None else columns
        if self.cu_seqlens:
            return self.seen[0, 0][np.ix_(rows, columns)]
        limits = {"causal": spec.causal, "window": spec.window}
        seen = visible(spec.query_length, spec.key_length, rows=rows, columns=columns, **limits)
        if self.lengths is not None:
            seen &= columns < self.lengths[batch]
        return seen if self.mask is None else seen & self.mask[batch, 0][np.ix_(rows, columns)]


def identity(spec: WorkloadSpec, content: str | None = None) -> WorkloadIdentity:
    """How records name a workload; `content` is None while its arrays are not made."""
    return WorkloadIdentity(name=spec.name, spec=spec.as_dict(), content=content)


def make(spec: WorkloadSpec) -> Workload:
    """Inputs of the kind that `spec.values` names, rounded to the workload's dtype."""
    import numpy as np

    generator = np.random.Generator(np.random.Philox(spec.seed))
    query = (spec.batch, spec.heads, spec.query_length, spec.head_dim)
    key = (spec.batch, spec.kv_heads, spec.key_length, spec.head_dim)
    drawn = [blocks.normal(generator, shape) for shape in (query, key, key, query)]
    if spec.layout == "expanded":  # one row of keys and values, seen by the whole batch
        drawn[1:3] = [np.broadcast_to(array[:1], array.shape) for array in drawn[1:3]]
    to_dtype = partial(rounded, dtype=spec.dtype)
    q, k, v, grad_out = (blocks.changed(a, to_dtype) for a in shape_values(spec, *drawn))
    return Workload(spec=spec, q=q, k=k, v=v, grad_out=grad_out, **_marks(spec, generator))


def _marks(spec: WorkloadSpec, generator: "np.random.Generator") -> dict[str, Any]:
    """The masks that a workload asks for, as arrays."""
    import numpy as np

    marks: dict[str, Any] = {}
    if spec.padded:
        marks["lengths"] = generator.integers(0, spec.key_length + 1, spec.batch, dtype=np.int32)
    if spec.masked:
        shape = (spec.batch, 1, spec.query_length, spec.key_length)
        marks["mask"] = generator.random(shape) < 0.7
    if spec.packed:
        lengths = (spec.query_length, spec.key_length)
        marks["cu_seqlens"] = tuple(_starts(n, spec.packed, generator) for n in lengths)
    return marks


def _starts(total: int, count: int, generator: "np.random.Generator") -> "np.ndarray":
    """Where `count` sequences of random lengths begin, and the last ends; some may be empty."""
    import numpy as np

    inner = np.sort(generator.integers(0, total + 1, count - 1))
    return np.concatenate(([0], inner, [total])).astype(np.int32)


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
