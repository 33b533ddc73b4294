"""One layer bound to one workload on one device: what the timed probes are handed.

Its inputs stand where q, k and v of an attention stand: x, the weights before the heads, and the
output projection, in which the result is linear. The last is what rounds multiply.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from assay.host import Host
from assay.models import layer
from assay.models.layer import Layer
from assay.subjects.layer_inputs import LayerInputs
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import framework_named

FRAMEWORK = "jax"


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Arrays on the device that all layers of a cell share."""

    x: Any
    weights: dict[str, Any]
    grad_out: Any
    positions: Any  # [1, S]
    mask: Any  # [B, 1, S, S], causal; made beforehand, as a model makes it once for all its layers


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerCall:
    """Calling it runs the forward pass, as in training: no cache comes or goes."""

    implementation: Layer
    device: str
    framework: ModuleType
    workload: LayerInputs
    apply: Callable[..., Any]  # bound to positions and mask
    inputs: tuple[Any, ...]  # x, the weights before the heads, the output projection
    grad_out: Any
    placed: Placed  # what the other layers of the cell are given too
    timer: Any = None
    state: dict[str, Any] = field(default_factory=dict)
    has_backward: bool = True

    @property
    def name(self) -> str:
        return self.implementation.name

    def __call__(self) -> Any:
        return self.apply(*self.inputs)

    def synchronize(self) -> None:
        self.framework.synchronize(self.device)

    def forward_program(self) -> Any:
        """The forward pass, compiled; a call of it is `self()`."""
        return self.apply.func.lower(*self.apply.args, *self.inputs).compile()

    def training_program(self) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
        """Output and gradients of all inputs as one compiled program, bound to its arguments."""
        import jax

        def both(bound: tuple, grad_out: Any, *given: Any) -> tuple[Any, tuple[Any, ...]]:
            out, pull_back = jax.vjp(partial(self.apply.func, *bound), *given)
            return out, pull_back(grad_out)

        arguments = (self.apply.args, self.grad_out, *self.inputs)
        return partial(jax.jit(both).lower(*arguments).compile(), *arguments)


def place(inputs: LayerInputs, device: str) -> Placed:
    """The inputs on `device`, in the workload's dtype."""
    framework, spec = framework_named(FRAMEWORK), inputs.spec
    to_device = partial(framework.place, dtype=spec.dtype, device=device)
    length = spec.query_length
    seen = framework.marks(np.tril(np.ones((length, length), bool)), device)
    return Placed(
        x=to_device(inputs.x),
        weights={name: to_device(weight) for name, weight in inputs.weights.items()},
        grad_out=to_device(inputs.grad_out),
        positions=framework.marks(np.arange(length, dtype=np.int32)[None], device),
        mask=framework.expanded(seen, (spec.batch, 1, length, length)),
    )


def load(
    subject: str, inputs: LayerInputs, *, host: Host, device: str, folders: Sequence[Path]
) -> Layer:
    """The layer called layer:core; raises Unsupported where this workload is not for it."""
    found = layer.load(subject, folders)
    here = replace(host, devices=tuple(d for d in host.devices if d.label == device))
    if found.framework != FRAMEWORK:
        raise Unsupported(f"layers are timed in {FRAMEWORK}, this one is of {found.framework}")
    if refusal := found.refusal(inputs.spec, here):
        raise Unsupported(refusal)
    return found


def bind(found: Layer, inputs: LayerInputs, placed: Placed, device: str) -> LayerCall:
    """A layer with the weights that all have."""
    import jax

    params = found.init(replace(inputs.spec, seed=0), placed.weights)

    def forward(positions: Any, mask: Any, x: Any, into: Any, out: Any) -> Any:
        return found.apply({"in": into, "out": out}, x, positions, mask, core=found.core)[0]

    return LayerCall(
        implementation=found,
        device=device,
        framework=framework_named(FRAMEWORK),
        workload=inputs,
        apply=jax.tree_util.Partial(jax.jit(forward), placed.positions, placed.mask),
        inputs=(placed.x, params["in"], params["out"]),
        grad_out=placed.grad_out,
        placed=placed,
    )
