"""One captured call as its scores: what q, k, the mask and the scalars of a record say together.

Axes: B batch, H query heads, K kv heads, M queries, N keys, D head dimension. Query head h reads kv
head h // (H / K).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assay.captures.manifest import Scalar
from assay.captures.mask import HIDDEN_BELOW
from assay.captures.tensor import Tensor
from assay.errors import BadInput

ALIGNMENTS = ("bottom-right", "top-left")
# A call with one of these, as a scalar or as a tensor, has other weights than are computed here.
_NOT_UNDERSTOOD = ("window", "sinks", "query_seq_lengths", "key_value_seq_lengths")


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionCall:
    """What one call computed its weights from. The mask is boolean or additive; axes of mask and
    bias may be one long, and then count for all."""

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
        """Scores of some queries in float64, the additive mask in them, and the keys they see."""
        kv_head = head // (self.sizes[1] // self.k_BKND.shape[1])
        q = self.q_BHMD[batch, head][rows].astype(np.float64)
        found = q @ self.k_BKND[batch, kv_head].astype(np.float64).T * self.scale
        if self.softcap:
            found = self.softcap * np.tanh(found / self.softcap)
        if self.bias_BHMN is not None:
            found = found + _part(self.bias_BHMN, batch, head, rows)
        seen = self._causal(rows)
        if self.mask_BHMN is not None:
            mask = _part(self.mask_BHMN, batch, head, rows)
            if mask.dtype != bool:
                found = found + np.where(mask > HIDDEN_BELOW, mask, 0.0)
            seen = seen & shown(mask)
        return found, seen

    @cached_property
    def padding_BN(self) -> np.ndarray:
        """The keys that the mask hides from every query."""
        if self.mask_BHMN is None:
            return np.zeros((self.sizes[0], self.sizes[3]), dtype=bool)
        hidden = ~shown(self.mask_BHMN).any(axis=(1, 2))
        return np.broadcast_to(hidden, (self.sizes[0], self.sizes[3]))

    @property
    def first_key_B(self) -> np.ndarray:
        """Of each row the first key that is no padding."""
        return np.argmin(self.padding_BN, axis=1)

    def _causal(self, rows: np.ndarray) -> np.ndarray:  # [rows, N] of bool
        _, _, queries, keys = self.sizes
        if not self.causal:
            return np.ones((len(rows), keys), dtype=bool)
        ahead = keys - queries if self.alignment == "bottom-right" else 0
        return np.arange(keys) <= rows[:, None] + ahead


def attention_call(tensors: Mapping[str, Tensor], scalars: Mapping[str, Scalar]) -> AttentionCall:
    """The call of a record; BadInput says why its weights cannot be computed.

    A record that was cut to some heads, queries or rows still has every key that these see.
    """
    for name in ("q", "k"):
        if name not in tensors:
            raise BadInput(f"there is no {name}")
        if len(tensors[name].shape) != 4 or not tensors[name].bits.size:
            raise BadInput(f"{name} is {tensors[name].shape}, wanted batch, heads, length, dim")
    if beyond := [name for name in _NOT_UNDERSTOOD if scalars.get(name) or name in tensors]:
        raise BadInput(f"{', '.join(beyond)} of the call is not computed here")
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


def shown(mask: np.ndarray) -> np.ndarray:
    """True where a mask lets a query see a key."""
    return mask if mask.dtype == bool else mask > HIDDEN_BELOW


def _part(whole_BHMN: np.ndarray, batch: int, head: int, rows: np.ndarray) -> np.ndarray:
    """Some queries of one head of a mask or a bias."""
    axes = whole_BHMN.shape
    part = whole_BHMN[batch if axes[0] > 1 else 0, head if axes[1] > 1 else 0]
    return part[rows] if axes[2] > 1 else part


def _with_four_axes(
    name: str, tensors: Mapping[str, Tensor], sizes: tuple[int, int, int, int]
) -> np.ndarray | None:
    """A mask or a bias from [M, N], [B, N], [H, M, N], [B, M, N] or what has four axes.

    Keys beyond those of k are left out: a cache's mask may be made for more.
    """
    if name not in tensors:
        return None
    batch, heads, queries, keys = sizes
    found = tensors[name].numbers()
    if name == "mask" and np.issubdtype(found.dtype, np.integer):
        found = found != 0
    if found.ndim == 2 and found.shape[0] == batch != queries:
        found = found[:, None, None]
    elif found.ndim == 3 and found.shape[0] == batch != heads:
        found = found[:, None]
    found = found.reshape((1,) * (4 - found.ndim) + found.shape)[..., :keys]
    if len(found.shape) != 4 or any(
        n not in (1, size) for n, size in zip(found.shape, sizes, strict=True)
    ):
        shape = tensors[name].shape
        raise BadInput(f"its {name} {shape} does not fit [B, H, M, N] = {sizes}")
    return found
