"""Operands of attention: new tokens on one side, all tokens on the other, in either role.

Standard attention scores a new query against all keys; swapped, it scores a new key against all
queries. Operands have both, whatever a cache keeps. Expanded ones have every head's vectors in
memory. Absorbed ones leave the rows as a cache keeps them, shared by all heads, and take the maps
that make keys and values of them to the side of the new token and of the output: a step then costs
rows times their width, not rows times all heads.

B batch, H heads, T new tokens, S tokens in all, D head dimension, R what a row holds.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from assay.models.gpt2.softmax_attention import (
    AttentionOutput,
    CacheReading,
    SoftmaxAttention,
    products,
)

ALL = slice(None)  # heads; not a default value, which torch 2.11 cannot trace


@dataclass(frozen=True, kw_only=True)
class Operands(ABC):
    """Both kinds of operands. `new` holds q and k of the new tokens, [B, H, T, D]."""

    new: Mapping[str, torch.Tensor]
    scale: float
    reading: CacheReading | None  # of a cache; None without one
    training: bool

    @property
    def cached(self) -> bool:
        return self.reading is not None

    @abstractmethod
    def pair(self, *, swapped: bool = False, heads: slice | None = None) -> tuple[Any, Any]:
        """Rows and columns whose products are the scores, up to a constant for each row."""

    @abstractmethod
    def scores(self, *, swapped: bool = False) -> torch.Tensor:
        """Unscaled and unmasked scores with all constants, [B, H, T, S]."""

    @abstractmethod
    def values(self, heads: slice | None = None) -> torch.Tensor:
        """Rows that are averaged, [B, H or 1, S, D or R]."""

    @abstractmethod
    def mixed(
        self, standard: torch.Tensor, swapped: torch.Tensor, probe: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Rows, columns and a bias with standard * (q k) + swapped * (k q) + probe k as scores.

        All three are for each head: [H, 1, 1], [H, 1, 1] and [H, 1, D].
        """

    def finish(self, out: torch.Tensor, heads: slice | None = None) -> torch.Tensor:
        """Averages of `values` as outputs of heads, [B, H, T, D]."""
        return out

    def attend(
        self,
        kernel: Any,
        rows: torch.Tensor,
        columns: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        heads: slice | None = None,
    ) -> AttentionOutput:
        """Attention through `kernel`, its output finished and multiplied by its factor."""
        by_reading = {"reading": self.reading} if isinstance(kernel, SoftmaxAttention) else {}
        attended = kernel(
            rows,
            columns,
            self.values(heads),
            scale=self.scale,
            bias=bias,
            training=self.training,
            **by_reading,
        )
        out = self.finish(attended.out, heads)  # [B, H, T, D]
        if attended.factor is not None:
            out = out * attended.factor
        return AttentionOutput(out, attended.weights)


@dataclass(frozen=True, kw_only=True)
class ExpandedOperands(Operands):
    """`all` holds v and those of k and q that are read, [B, H, S, D]."""

    all: Mapping[str, torch.Tensor]

    def pair(self, *, swapped: bool = False, heads: slice | None = None) -> tuple[Any, Any]:
        near, far = ("k", "q") if swapped else ("q", "k")
        rows = self.new[near][:, heads or ALL]
        columns = self.all[far]  # of queries, only those of some heads may have been kept
        return rows, columns if columns.shape[1] == rows.shape[1] else columns[:, heads or ALL]

    def scores(self, *, swapped: bool = False) -> torch.Tensor:
        return products(*self.pair(swapped=swapped))

    def values(self, heads: slice | None = None) -> torch.Tensor:
        return self.all["v"][:, heads or ALL]

    def mixed(
        self, standard: torch.Tensor, swapped: torch.Tensor, probe: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Without a cache both terms are one product of twice the width, which fused kernels take;
        with one, that would copy the cache."""
        rows, columns = self.pair()
        rows = standard * rows + probe  # [B, H, T, D]
        if self.cached:
            return rows, columns, swapped * self.scores(swapped=True) * self.scale
        others, past = self.pair(swapped=True)
        # [B, H, T, 2 D] and [B, H, S, 2 D]
        return torch.cat([rows, swapped * others], -1), torch.cat([columns, past], -1), None


@dataclass(frozen=True, kw_only=True)
class RowMap:
    """Affine map from rows to vectors of heads, after the affine one of a codec if any."""

    weight: torch.Tensor  # [H, D, latent]
    bias: torch.Tensor  # [H, D]
    # [latent, R] and [latent], which is None for 0
    expand: tuple[torch.Tensor, torch.Tensor | None] | None = None

    @property
    def width(self) -> int:
        return (self.weight if self.expand is None else self.expand[0]).shape[-1]

    def absorb(self, vectors: torch.Tensor, heads: slice | None = None) -> torch.Tensor:
        """[B, H, T, D] -> [B, H, T, R], whose product with a row is that of the vectors with the
        row's vector, up to `constant`."""
        rows = torch.einsum("bhtd,hdr->bhtr", vectors, self.weight[heads or ALL])
        return rows if self.expand is None else rows @ self.expand[0]

    def constant(self, vectors: torch.Tensor) -> torch.Tensor:
        """Part of the product that no row holds, the same for every row: [B, H, T, 1]."""
        bias = self.bias
        if self.expand is not None and self.expand[1] is not None:
            bias = bias + self.weight @ self.expand[1]
        return torch.einsum("bhtd,hd->bht", vectors, bias)[..., None]

    def vectors(self, averages: torch.Tensor, heads: slice | None = None) -> torch.Tensor:
        """[B, H, T, R] -> [B, H, T, D], of averages of rows."""
        if self.expand is not None:
            averages = F.linear(averages, *self.expand)
        vectors = torch.einsum("bhtr,hdr->bhtd", averages, self.weight[heads or ALL])
        return vectors + self.bias[heads or ALL, None]


@dataclass(frozen=True, kw_only=True)
class AbsorbedOperands(Operands):
    """`rows` are what is kept of all tokens, [B, S, R] by role; `maps` make vectors of them.

    A row of keys may end in rotated dimensions; `rope` are those of the new queries [B, H, T, r].
    """

    rows: Mapping[str, torch.Tensor]
    maps: Mapping[str, RowMap]
    rope: torch.Tensor | None = None

    def pair(self, *, swapped: bool = False, heads: slice | None = None) -> tuple[Any, Any]:
        near, far = ("k", "q") if swapped else ("q", "k")
        rows = self.maps[far].absorb(self.new[near][:, heads or ALL], heads)
        if self.rope is not None:
            rows = torch.cat([rows, self.rope], dim=-1)
        return rows, self.rows[far][:, None]  # [B, H, T, R] and [B, 1, S, R]

    def scores(self, *, swapped: bool = False) -> torch.Tensor:
        near, far = ("k", "q") if swapped else ("q", "k")
        constant = self.maps[far].constant(self.new[near])
        return products(*self.pair(swapped=swapped)) + constant

    def values(self, heads: slice | None = None) -> torch.Tensor:
        return self.rows["v"][:, None, :, : self.maps["v"].width]

    def finish(self, out: torch.Tensor, heads: slice | None = None) -> torch.Tensor:
        return self.maps["v"].vectors(out, heads)

    def mixed(
        self, standard: torch.Tensor, swapped: torch.Tensor, probe: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """One row serves both terms, because both read the same latent."""
        rows, columns = self.pair()
        others, _ = self.pair(swapped=True)
        return (
            standard * rows + swapped * others + self.maps["k"].absorb(probe[None]),
            columns,
            None,
        )
