"""Scores of a captured call, from the q, k, mask, bias and scalars of its record.

Axes: B batch, H query heads, K kv heads, M queries, N keys, D head dimension. Query head h reads kv
head h // (H / K).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assay.captures.manifest import ALIGNMENTS, Scalar
from assay.captures.mask import HIDDEN_BELOW
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.workloads.visibility import visibility_mask

# A call with one of these, as a scalar or as a tensor, has other weights than are computed here.
_UNSUPPORTED = ("window", "sinks", "query_seq_lengths", "key_value_seq_lengths")


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionCall:
    """Inputs of one call's attention weights. The mask is boolean or additive; axes of mask and
    bias that have length 1 are broadcast."""

    q_BHMD: np.ndarray
    k_BKND: np.ndarray
    scale: float
    causal: bool = False
    alignment: str = "bottom-right"
    mask_BHMN: np.ndarray | None = None
    bias_BHMN: np.ndarray | None = None  # added to the scores
    softcap: float | None = None  # scores s become softcap * tanh(s / softcap)

    def __post_init__(self) -> None:
        if self.alignment not in ALIGNMENTS:
            raise BadInput(f"alignment {self.alignment!r} is not {' or '.join(ALIGNMENTS)}")
        batch, heads, _, dim = self.q_BHMD.shape
        if self.k_BKND.shape[0] != batch or self.k_BKND.shape[3] != dim:
            raise BadInput(f"q {self.q_BHMD.shape} and k {self.k_BKND.shape} do not go together")
        if heads % self.k_BKND.shape[1]:
            raise BadInput(f"{heads} heads of q do not divide over {self.k_BKND.shape[1]} of k")

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, H, M and N."""
        return (*self.q_BHMD.shape[:3], self.k_BKND.shape[2])

    def scores(self, batch: int, head: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of some queries [rows, N] in float64, with the additive mask, and True for the
        keys that each query sees [rows, N]."""
        kv_head = head // (self.sizes[1] // self.k_BKND.shape[1])
        q = self.q_BHMD[batch, head][rows].astype(np.float64)
        scores = q @ self.k_BKND[batch, kv_head].astype(np.float64).T * self.scale
        if self.softcap:
            scores = self.softcap * np.tanh(scores / self.softcap)
        if self.bias_BHMN is not None:
            scores = scores + np.broadcast_to(self.bias_BHMN, self.sizes)[batch, head, rows]
        _, _, queries, keys = self.sizes
        last = queries if self.alignment == "bottom-right" else keys  # query that sees every key
        shown = visibility_mask(last, keys, causal=self.causal, rows=rows)
        if self.mask_BHMN is not None:
            mask = np.broadcast_to(self.mask_BHMN, self.sizes)[batch, head, rows]
            if mask.dtype != bool:
                scores = scores + np.where(mask > HIDDEN_BELOW, mask, 0.0)
            shown = shown & _shown(mask)
        return scores, shown

    @cached_property
    def padding_BN(self) -> np.ndarray:
        """True for keys that the mask hides from every query."""
        if self.mask_BHMN is None:
            return np.zeros((self.sizes[0], self.sizes[3]), dtype=bool)
        hidden = ~_shown(self.mask_BHMN).any(axis=(1, 2))
        return np.broadcast_to(hidden, (self.sizes[0], self.sizes[3]))

    @property
    def first_key_B(self) -> np.ndarray:
        """Index of the first key of each row that is not padding."""
        return np.argmin(self.padding_BN, axis=1)


def attention_call(tensors: Mapping[str, Tensor], scalars: Mapping[str, Scalar]) -> AttentionCall:
    """Return the call of a record; BadInput says why its weights cannot be computed.

    A record that was cut to some heads, queries or rows still has every key that these see.
    """
    for name in ("q", "k"):
        if name not in tensors:
            raise BadInput(f"there is no {name}")
        if len(tensors[name].shape) != 4 or not tensors[name].bits.size:
            raise BadInput(f"{name} is {tensors[name].shape}, wanted batch, heads, length, dim")
    if unsupported := [name for name in _UNSUPPORTED if scalars.get(name) or name in tensors]:
        raise BadInput(f"{', '.join(unsupported)} of the call is not computed here")
    scale = scalars.get("scale")
    if not isinstance(scale, int | float):
        raise BadInput("the record does not say its scale")
    q, k = tensors["q"].numbers(), tensors["k"].numbers()
    sizes = (*q.shape[:3], k.shape[2])
    return AttentionCall(
        q_BHMD=q,
        k_BKND=k,
        scale=float(scale),
        causal=bool(scalars.get("causal")),
        alignment=str(scalars.get("alignment") or "bottom-right"),
        mask_BHMN=_with_four_axes("mask", tensors, sizes),
        bias_BHMN=_with_four_axes("bias", tensors, sizes),
        softcap=float(scalars.get("softcap") or 0.0) or None,
    )


def _shown(mask: np.ndarray) -> np.ndarray:
    """True where a mask lets a query see a key."""
    return mask if mask.dtype == bool else mask > HIDDEN_BELOW


def _with_four_axes(
    name: str, tensors: Mapping[str, Tensor], sizes: tuple[int, int, int, int]
) -> np.ndarray | None:
    """Mask or bias with axes B, H, M and N, from [M, N], [B, N], [H, M, N], [B, M, N] or all four.

    Keys beyond those of k are left out: the mask of a cache may be made for more.
    """
    if name not in tensors:
        return None
    batch, heads, queries, keys = sizes
    array = tensors[name].numbers()
    if name == "mask" and np.issubdtype(array.dtype, np.integer):
        array = array != 0
    if array.ndim == 2 and array.shape[0] == batch != queries:
        array = array[:, None, None]
    elif array.ndim == 3 and array.shape[0] == batch != heads:
        array = array[:, None]
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)[..., :keys]
    fits = array.ndim == 4 and all(
        n in (1, size) for n, size in zip(array.shape, sizes, strict=True)
    )
    if not fits:
        shape = tensors[name].shape
        raise BadInput(f"its {name} {shape} does not fit [B, H, M, N] = {sizes}")
    return array
