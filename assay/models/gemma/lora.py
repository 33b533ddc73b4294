"""Low-rank adapters (Hu et al. 2021, arXiv 2106.09685) beside the weights of an einsum or an MLP.

y = x W + scale * (x A) B. Weights are float32 and are cast to the dtype of x where they are used.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct

from assay.models.gemma.validation import InvalidInput


@struct.dataclass
class LoRAConfig:
    """The adapters of one weight."""

    rank: int
    alpha: float = 1.0
    init_fn: nn.initializers.Initializer = nn.initializers.normal(stddev=0.01)  # for A and for B
    rslora: bool = False  # divide by sqrt(rank), not by rank: Kalajdzievski 2023, arXiv 2312.03732
    axes: tuple[int, int] = (-2, -1)  # of the weight: the axis A reads, the axis B writes
    label: str = "L"  # the letter of the rank axis in einsum equations

    @property
    def scaling_value(self) -> float:
        """Factor of the product of A and B."""
        return self.alpha / (math.sqrt(self.rank) if self.rslora else self.rank)


def lora_equations(equation: str, config: LoRAConfig) -> tuple[str, str]:
    """The einsum equations of the steps x A and (x A) B.

    A letter that only the weight has (the heads of `BTNH,NHD->BTD`) stays in both: the first step
    sums A over it, the second sums B over it by itself. So all heads share one update there; that
    is how the adapters of existing checkpoints were trained.
    """
    inputs, arrow, out = equation.partition("->")
    operands = inputs.split(",")
    if not arrow or len(operands) != 2:
        raise InvalidInput(f"equation {equation!r} is not of the form 'input,weight->output'")
    if taken := {"L", config.label} & set(equation):
        raise InvalidInput(
            f"equation {equation!r} uses {', '.join(sorted(taken))}, which is kept for the rank "
            "axis of LoRA; rename that axis in the equation"
        )
    x, weight = operands
    read, written = (weight[axis] for axis in config.axes)
    a_out = out.replace(written, config.label)
    a_equation = f"{x},{weight.replace(written, config.label)}->{a_out}"
    return a_equation, f"{a_out},{weight.replace(read, config.label)}->{out}"


class Einsum(nn.Module):
    """An einsum of the input with one weight `w`, and with `lora_a`, `lora_b` if configured."""

    shape: tuple[int, ...]
    init_fn: nn.initializers.Initializer = nn.initializers.zeros
    lora_config: LoRAConfig | None = None

    @nn.compact
    def __call__(self, eqn: str, x: jax.Array) -> jax.Array:
        """einsum(eqn, x, w) in the dtype of x; A and B have the shape of w, but for the rank."""
        w = self.param("w", self.init_fn, self.shape)
        out = jnp.einsum(eqn, x, w.astype(x.dtype))
        config = self.lora_config
        if not config:
            return out
        a_shape, b_shape = list(self.shape), list(self.shape)
        a_shape[config.axes[1]] = config.rank
        b_shape[config.axes[0]] = config.rank
        a = self.param("lora_a", config.init_fn, tuple(a_shape))
        b = self.param("lora_b", config.init_fn, tuple(b_shape))
        a_equation, b_equation = lora_equations(eqn, config)
        update = jnp.einsum(a_equation, x, a.astype(x.dtype))
        update = jnp.einsum(b_equation, update, b.astype(x.dtype))
        return out + update * config.scaling_value


class FeedForward(nn.Module):
    """The gated MLP of Gemma: (gelu(x G) * (x U)) L, with adapters if configured.

    The scale of the adapters is not applied here (it is 1 in every stock configuration).
    """

    features: int
    hidden_dim: int
    lora_config: LoRAConfig | None = None

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., features] to the same shape and dtype."""
        stacked = nn.initializers.lecun_normal(in_axis=-2, out_axis=-1, batch_axis=(0,))
        single = nn.initializers.lecun_normal(in_axis=-2, out_axis=-1)
        features, hidden = self.features, self.hidden_dim
        gate_up = [self.param("gating_einsum", stacked, (2, features, hidden))]
        down = [self.param("linear", single, (hidden, features))]
        if self.lora_config:
            gate_up += self._adapters("gating_einsum", (2, features), (hidden,))
            down += self._adapters("linear", (hidden,), (features,))
        gate = nn.gelu(_through(x, [weight[0] for weight in gate_up]))  # [..., hidden]
        up = _through(x, [weight[1] for weight in gate_up])  # [..., hidden]
        return _through(gate * up, down)

    def _adapters(
        self, name: str, before: tuple[int, ...], after: tuple[int, ...]
    ) -> list[jax.Array]:
        """A [*before, rank] and B [..., rank, *after]; a leading stack axis belongs to both."""
        config = self.lora_config
        *stack, _ = before
        return [
            self.param(f"{name}_lora_a", config.init_fn, (*before, config.rank)),
            self.param(f"{name}_lora_b", config.init_fn, (*stack, config.rank, *after)),
        ]


def _through(x: jax.Array, weights: list[jax.Array]) -> jax.Array:
    """x W, or x W + (x A) B, everything in the dtype of x."""
    base, *adapters = (weight.astype(x.dtype) for weight in weights)
    out = jnp.dot(x, base)
    if not adapters:
        return out
    a, b = adapters
    return out + jnp.dot(jnp.dot(x, a), b)
