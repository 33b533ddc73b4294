"""One attention call in all its forms, and how far its results may be from float64."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from assay.attention import baseline, reference
from assay.attention.budget import TENSORS, allowances, ulp
from assay.attention.sequence import flash2_triton
from assay.workloads import visibility
from assay.workloads.values import rounded


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Shapes, masks and dtype; `starts` are the borders of packed queries and keys."""

    batch: int = 1
    heads: int = 2
    kv_heads: int = 1
    queries: int = 97
    keys: int = 130
    head_dim: int = 16
    dtype: str = "float16"
    causal: bool = True
    scale: float = 0.3
    size: float = 1.0
    window: int | None = None
    lengths: tuple[int, ...] | None = None
    starts: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    seed: int = 5
    device: str = "cpu"
    config: str | None = None
    view: Callable[[torch.Tensor], torch.Tensor] = field(default=lambda tensor: tensor)

    def arrays(self) -> dict[str, np.ndarray]:
        """q, k, v and grad_out, float32 holding values of the dtype."""
        generator = np.random.Generator(np.random.Philox(self.seed))
        query = (self.batch, self.heads, self.queries, self.head_dim)
        key = (self.batch, self.kv_heads, self.keys, self.head_dim)
        shapes = {"q": query, "k": key, "v": key, "grad_out": query}
        sizes = {"q": self.size, "k": self.size, "v": 1.0, "grad_out": 1.0}
        return {
            name: rounded(np.float32(sizes[name]) * generator.standard_normal(shape), self.dtype)
            for name, shape in shapes.items()
        }

    def visible(self) -> np.ndarray:
        """[B, 1, M, N] of bool."""
        masks = {"causal": self.causal, "window": self.window or 0}
        if self.starts is not None:
            queries, keys = map(np.array, self.starts)
            visible = visibility.packed_visibility_mask(queries, keys, **masks)
        else:
            visible = visibility.visibility_mask(self.queries, self.keys, **masks)
        visible = np.broadcast_to(visible, (self.batch, 1, self.queries, self.keys))
        if self.lengths is not None:
            visible = visible & (np.arange(self.keys) < np.array(self.lengths)[:, None, None, None])
        return visible

    def extras(self) -> dict[str, Any]:
        """The keyword arguments that say the masks."""

        def integers(values: tuple[int, ...]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int32, device=self.device)

        options: dict[str, Any] = {"window": self.window, "config": self.config}
        if self.lengths is not None:
            options["lengths"] = integers(self.lengths)
        if self.starts is not None:
            options["cu_seqlens"] = tuple(map(integers, self.starts))
        return options

    def tensors(self) -> dict[str, torch.Tensor]:
        dtype = getattr(torch, self.dtype)
        return {
            name: self.view(torch.from_numpy(array).to(self.device, dtype))
            for name, array in self.arrays().items()
        }

    def results(self) -> dict[str, torch.Tensor]:
        """Output, normaliser and gradients, as flash2_triton gives them."""
        given = self.tensors()
        inputs = [given[name].detach().requires_grad_() for name in ("q", "k", "v")]
        out, lse = flash2_triton.attention(
            *inputs, causal=self.causal, scale=self.scale, lse=True, **self.extras()
        )
        assert out.dtype == inputs[0].dtype and lse.dtype == torch.float32
        grads = torch.autograd.grad(out, inputs, given["grad_out"])
        return {"lse": lse, **dict(zip(TENSORS, (out, *grads), strict=True))}

    def assert_right(self) -> dict[str, torch.Tensor]:
        """All results within their allowances; they are handed back for more."""
        arrays, visible = self.arrays(), self.visible()
        setting = {"causal": self.causal, "scale": self.scale, "visible": visible}
        expected = reference.attention(**arrays, **setting)
        plain = baseline.attention(**arrays, **setting, dtype=self.dtype)
        allowed = allowances(expected, plain, **arrays, **setting, dtype=self.dtype)
        results = self.results()
        for name in TENSORS:
            actual = results[name].detach().double().cpu().numpy()
            share = (np.abs(actual - getattr(expected, name)) / allowed[name].largest).max()
            assert share <= 1, f"{name} of {self}: {share:.2f} of its budget"
        self._assert_normaliser(results["lse"], expected.lse, plain.lse)
        return results

    def _assert_normaliser(
        self, normaliser: torch.Tensor, expected: np.ndarray, plain: np.ndarray
    ) -> None:
        actual, blind = normaliser.detach().double().cpu().numpy(), np.isneginf(expected)
        assert np.array_equal(np.isneginf(actual), blind)
        if blind.all():
            return
        error = np.abs(actual[~blind] - expected[~blind])
        size = np.abs(expected[~blind]).max()
        # A score of head_dim products, and a few float32 operations at the normaliser's size.
        floor = (np.sqrt(self.head_dim) + 4) * ulp(max(size, 1.0), "float32")
        fair = max(2 * np.abs(plain[~blind] - expected[~blind]).max(), floor)
        assert error.max() <= fair, f"lse of {self}: {error.max() / fair:.2f} of its budget"


# What the tests on a GPU start from.
GPU = Problem(device="cuda", dtype="bfloat16", head_dim=64, scale=0.125)
