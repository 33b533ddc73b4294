"""The arrays of one attention call, wherever they come from, and what identifies them.

Arrays are float32 that hold only values of the workload's dtype, so that converting them is
exact in any framework, also where NumPy has no such dtype.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from assay.records.schema import WorkloadIdentity
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import content_bytes
from assay.workloads.visibility import packed_visibility_mask, visibility_mask

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Captured:
    """Results that a model computed of a captured workload, and the code that computed them."""

    out: "np.ndarray"  # [batch, heads, queries, head_dim]
    implementation: str | None
    device: str
    versions: dict[str, str]
    order: str | None  # how q, k and v lay in memory: BHSD or BSHD; None where not alike
    rows: "np.ndarray"  # [batch, 1, queries] of bool: those that see a key, whose output is defined


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
    captured: "Captured | None" = None

    @cached_property
    def identity(self) -> WorkloadIdentity:
        content = hashlib.blake2b(self.spec.dtype.encode(), digest_size=16)
        marks = (self.lengths, self.mask, *(self.cu_seqlens or ()))
        for array in (self.q, self.k, self.v, self.grad_out, *marks):
            if array is not None:
                content.update(repr(array.shape).encode())
                content.update(content_bytes(array))
        return identity(self.spec, content.hexdigest())

    @cached_property
    def visible(self) -> "np.ndarray":
        """True where a query may see a key, [batch or 1, 1, queries, keys]."""
        import numpy as np

        queries, keys = self.spec.query_length, self.spec.key_length
        limits = {"causal": self.spec.causal, "window": self.spec.window}
        if self.cu_seqlens:
            return packed_visibility_mask(*self.cu_seqlens, **limits)[None, None]
        visible = visibility_mask(queries, keys, **limits)[None, None]
        if self.lengths is not None:
            visible = visible & (np.arange(keys) < self.lengths[:, None, None, None])
        return visible if self.mask is None else visible & self.mask

    def visible_block(
        self, batch: int, *, rows: "np.ndarray | None" = None, columns: "np.ndarray | None" = None
    ) -> "np.ndarray":
        """Some queries and keys of one batch row of `visible`, made without making all of it."""
        import numpy as np

        queries, keys = self.spec.query_length, self.spec.key_length
        rows = np.arange(queries) if rows is None else rows
        columns = np.arange(keys) if columns is None else columns
        block = np.ix_(rows, columns)
        if self.cu_seqlens:
            return self.visible[0, 0][block]
        limits = {"causal": self.spec.causal, "window": self.spec.window}
        visible = visibility_mask(queries, keys, rows=rows, columns=columns, **limits)
        if self.lengths is not None:
            visible &= columns < self.lengths[batch]
        return visible if self.mask is None else visible & self.mask[batch, 0][block]


def identity(spec: WorkloadSpec, content: str | None = None) -> WorkloadIdentity:
    """Identity of a workload in records; `content` is None while its arrays are not made."""
    return WorkloadIdentity(name=spec.name, spec=spec.as_dict(), content=content)
