"""A layer bound to one workload on one device, called as in training: no cache, a causal mask.

Its inputs stand where q, k and v of an attention stand: x, the weights before the heads, and the
output projection, in which the result is linear.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from assay.host import Host
from assay.models import layer
from assay.models.layer import Layer
from assay.records.schema import WorkloadIdentity
from assay.subjects.change import InputChange
from assay.subjects.contract import Expected, Index, TensorComparison
from assay.subjects.layers import expected as expectations
from assay.subjects.layers.inputs import WORK_FORMULAS, LayerInputs, make, work_of
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import framework_named
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import Work

__all__ = ["LayerSubject", "bind", "bind_loaded", "make", "place"]

FRAMEWORK = "jax"
_STABILITY_TOKENS = 130  # more than two tiles of 64


@dataclass(frozen=True, kw_only=True)
class PlacedArrays:
    """Arrays on the device that all layers of a cell share."""

    x: Any  # [B, S, D]
    weights: dict[str, Any]
    grad_out: Any  # [B, S, D]
    positions: Any  # [1, S]
    mask: Any  # [B, 1, S, S], causal; made beforehand, as a model makes it once for all its layers


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerSubject:
    """See contract.Subject."""

    implementation: Layer
    device: str
    framework: ModuleType
    workload: LayerInputs
    apply: Callable[..., Any]  # bound to positions and mask
    inputs: tuple[Any, ...]  # x, the weights before the heads, the output projection
    grad_out: Any
    options: dict[str, Any] = field(default_factory=dict)
    timer: Any = None
    state: dict[str, Any] = field(default_factory=dict)

    level = "layer"
    has_backward = True
    kind = "layers"
    accepts = frozenset()
    in_second_process = None
    gradient_names = ("dx", "dweights", "dprojection")

    @property
    def name(self) -> str:
        return self.implementation.name

    @property
    def identity(self) -> WorkloadIdentity:
        return self.workload.identity

    def __call__(self) -> Any:
        return self.apply(*self.inputs)

    def gradients(self) -> tuple[Any, tuple[Any, ...]]:
        """Return output and gradients of all inputs, by one compiled program."""
        both = _output_and_gradients(self.apply.func)
        return both(self.apply.args, self.grad_out, *self.inputs)

    def of_values(self, kind: str) -> "LayerSubject":
        """The same layer on numbers of a kind, in one batch row of few tokens."""
        inputs = _short(self.workload.spec, kind)
        arrays = place(inputs, self.device)
        bound = bind_loaded(self.implementation, inputs, arrays, self.device)
        return replace(bound, apply=_bound_to(self.apply.func, arrays))

    def synchronize(self) -> None:
        self.framework.synchronize(self.device)

    def numpy(self, array: Any, index: Index | None = None) -> np.ndarray:
        return self.framework.numpy(array if index is None else self.framework.taken(array, index))

    def renewed(self, change: InputChange) -> "LayerSubject":
        """The answer is linear in the projection."""
        x, into, projection = self.inputs
        return replace(self, inputs=(x, into, self.framework.times(projection, change.factor)))

    def restore(self) -> None:
        """Nothing: JAX arrays cannot be written to."""

    def expected(self) -> Expected:
        return expectations.expected(self.workload, self.device)

    def places(self, change: InputChange, *, keys: bool = False) -> dict[str, Index]:
        return expectations.spots(self.workload, self.device).index

    def spots(self, change: InputChange, *, keys: bool = False) -> Expected:
        return change.scaled(expectations.spots(self.workload, self.device))

    def form_problem(self, tensor: str, array: Any) -> str | None:
        """Out and dx look like x; gradients of weights are arrays under names."""
        like = self.inputs[0]
        if isinstance(array, Mapping) and tensor in self.gradient_names:
            return next(filter(None, (self.form_problem(tensor, a) for a in array.values())), None)
        if not self.framework.is_array(array):
            return f"{tensor} is a {type(array).__name__}, wanted an array of JAX: no subclass"
        if tensor not in ("out", "dx"):
            return None
        if array.shape != like.shape:
            return f"{tensor} has shape {tuple(array.shape)}, wanted {tuple(like.shape)}"
        if array.dtype != like.dtype:
            return f"{tensor} has dtype {array.dtype}, wanted {like.dtype}"
        return None

    def consistency(self, out: Any, gradients: tuple[Any, ...]) -> list[TensorComparison]:
        return [expectations.weights_agree(self.inputs, self.grad_out, out, gradients)]

    def result_bytes(self, *, training: bool) -> dict[str, int]:
        import jax

        results = {"out": self.inputs[0]}
        if training:
            results |= dict(zip(self.gradient_names, self.inputs, strict=True))
        return {
            name: sum(leaf.nbytes for leaf in jax.tree.leaves(like))
            for name, like in results.items()
        }

    def work(self) -> tuple[Work, dict[str, str]]:
        return work_of(self.workload.spec), WORK_FORMULAS


def place(inputs: LayerInputs, device: str) -> PlacedArrays:
    """Put the inputs on `device`, in the workload's dtype."""
    framework, spec = framework_named(FRAMEWORK), inputs.spec
    to_device = partial(framework.place, dtype=spec.dtype, device=device)
    length = spec.query_length
    visible = framework.marks(np.tril(np.ones((length, length), bool)), device)  # [S, S]
    return PlacedArrays(
        x=to_device(inputs.x),
        weights={name: to_device(weight) for name, weight in inputs.weights.items()},
        grad_out=to_device(inputs.grad_out),
        positions=framework.marks(np.arange(length, dtype=np.int32)[None], device),
        mask=framework.expanded(visible, (spec.batch, 1, length, length)),
    )


def bind(
    name: str,
    inputs: LayerInputs,
    *,
    host: Host,
    device: str,
    folders: Sequence[Path] = (),
    placed: dict[str, PlacedArrays] | None = None,
) -> LayerSubject:
    """Bind the layer called layer:core; raises Unsupported where this workload is not for it.

    With `placed`, the layers of a cell are given the very same arrays.
    """
    loaded = layer.load(name, folders)
    here = replace(host, devices=tuple(d for d in host.devices if d.label == device))
    if loaded.framework != FRAMEWORK:
        raise Unsupported(f"layers are timed in {FRAMEWORK}, this one is of {loaded.framework}")
    if refusal := loaded.refusal(inputs.spec, here):
        raise Unsupported(refusal)
    placed = {} if placed is None else placed
    if FRAMEWORK not in placed:
        placed[FRAMEWORK] = place(inputs, device)
    return bind_loaded(loaded, inputs, placed[FRAMEWORK], device)


def bind_loaded(
    loaded: Layer, inputs: LayerInputs, arrays: PlacedArrays, device: str
) -> LayerSubject:
    """As `bind`, with a layer that is loaded and arrays that are placed."""
    import jax

    params = loaded.init(replace(inputs.spec, seed=0), arrays.weights)

    def forward(positions: Any, mask: Any, x: Any, into: Any, out: Any) -> Any:
        return loaded.apply({"in": into, "out": out}, x, positions, mask, core=loaded.core)[0]

    return LayerSubject(
        implementation=loaded,
        device=device,
        framework=framework_named(FRAMEWORK),
        workload=inputs,
        apply=_bound_to(jax.jit(forward), arrays),
        inputs=(arrays.x, params["in"], params["out"]),
        grad_out=arrays.grad_out,
    )


def _bound_to(forward: Callable[..., Any], arrays: PlacedArrays) -> Any:
    import jax

    return jax.tree_util.Partial(forward, arrays.positions, arrays.mask)


@lru_cache(maxsize=8)
def _output_and_gradients(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The program that gives both; the same for every call, so it is compiled once for a shape."""
    import jax

    def both(bound: tuple, grad_out: Any, *inputs: Any) -> tuple[Any, tuple[Any, ...]]:
        out, pull_back = jax.vjp(partial(forward, *bound), *inputs)
        return out, pull_back(grad_out)

    return jax.jit(both)


@lru_cache(maxsize=4)
def _short(spec: WorkloadSpec, kind: str) -> LayerInputs:
    """Inputs that all layers of a cell are given, and with them one expected answer."""
    length = min(spec.query_length, _STABILITY_TOKENS)
    sizes = {"batch": 1, "query_length": length, "key_length": length}
    return make(replace(spec, values=kind, **sizes))
