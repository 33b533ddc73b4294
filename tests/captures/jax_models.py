"""A Flax model that is quick to compile, and what its attentions are really given.

Every layer is one attention of its own kind, with two heads and written out with einsum. `seen`
computes the same layer by layer in the open, so that captured values have something to equal.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from assay.captures.jax import FlaxCapture
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store

WIDTH, HEADS, LENGTH, BATCH = 4, 2, 3, 2


class TinyAttention(nn.Module):
    """Attention without projections out; scores are not scaled."""

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        w = self.param("w", nn.initializers.normal(1.0), (3, WIDTH, WIDTH))
        heads = (*x.shape[:-1], HEADS, WIDTH // HEADS)
        exact = {"precision": "highest"}  # on GPUs too
        q, k, v = (jnp.tanh(jnp.matmul(x, w[n], **exact)).reshape(heads) for n in range(3))
        scores = jnp.einsum("bthd,bshd->bhts", q, k, **exact)
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
        return jnp.einsum("bhts,bshd->bthd", weights, v, **exact).reshape(x.shape)


class Layer(nn.Module):
    """One layer, in the form that nn.scan wants."""

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array) -> tuple[jax.Array, None]:
        return x + TinyAttention(name="attn")(x * 2, mask), None


class Tiny(nn.Module):
    """Layers one after the other, or under one scan; rematerialised or not."""

    depth: int = 3
    scan: bool = True
    remat: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), dtype=bool))[None, None]
        layer = nn.remat(Layer, prevent_cse=False) if self.remat else Layer
        if not self.scan:
            for number in range(self.depth):
                x, _ = layer(name=f"layers_{number}")(x, mask)
            return x
        scanned = nn.scan(
            layer,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=nn.broadcast,
            length=self.depth,
        )
        return scanned(name="layers")(x, mask)[0]


def inputs(seed: int = 0, batch: int = BATCH) -> jax.Array:
    drawn = np.random.default_rng(seed).standard_normal((batch, LENGTH, WIDTH))
    return jnp.asarray(drawn, dtype=jnp.float32)


def parameters(model: Tiny) -> dict:
    """As `init` would make them, without compiling it."""
    drawn = np.random.default_rng(9).standard_normal((model.depth, 3, WIDTH, WIDTH))
    w = drawn.astype(np.float32)
    if model.scan:
        return {"params": {"layers": {"attn": {"w": w}}}}
    return {"params": {f"layers_{n}": {"attn": {"w": w[n]}} for n in range(model.depth)}}


def loss(model: nn.Module) -> Any:
    return lambda variables, x: model.apply(variables, x).sum()


def capture(model: nn.Module | None, path: Any, *, attention: Any = None, **choices: Any) -> Any:
    store = Store.create(path / "store")
    return FlaxCapture(model, store, CaptureOptions(**choices), scale=1.0, attention=attention)


def records(path: Any) -> list:
    return Store.open(path / "store").manifest().records


def keys(path: Any) -> list[tuple[int, int, int]]:
    """Step, layer and call of every record, in order of keys."""
    return [(r.key.step, r.key.layer, r.key.call) for r in records(path)]


def tensors(path: Any, text: str) -> dict[str, np.ndarray]:
    """The tensors of the one record that `text` finds."""
    store = Store.open(path / "store")
    (record,) = store.find(text)
    return {name: tensor.bits for name, tensor in store.read(record).items()}
