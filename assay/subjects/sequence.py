"""A sequence implementation bound to one workload on one device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from assay import plugins
from assay.attention import contract
from assay.attention.contract import Implementation
from assay.captures.inputs import make
from assay.host import Host
from assay.records.schema import WorkloadIdentity
from assay.subjects.change import InputChange
from assay.subjects.contract import Expected, Index, TensorComparison
from assay.subjects.expected import expected
from assay.subjects.key_spots import key_places, key_spots
from assay.subjects.outcome import Unsupported
from assay.subjects.spots import places, spots
from assay.workloads import work
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import Work, key_bytes, query_bytes
from assay.workloads.workload import Workload

__all__ = ["SequenceSubject", "bind", "bind_loaded", "framework_named", "framework_of", "make"]

INPUTS = ("q", "k", "v")
ALL = (True, True, True)
WORK_FORMULAS = {
    "forward_flops": "formula: 4 D per visible pair of query and key, for each query head",
    "backward_flops": "formula: 2.5 times the forward's",
    "forward_bytes": "formula: q, k and v read once, out written once",
    "backward_bytes": "formula: q, k, v, out, dO and LSE read once, dq, dk and dv written once",
    "kv_cache_bytes": "formula: k and v of this workload",
}
_LIKE = {"out": 0, "lse": 0, "dq": 0, "dk": 1, "dv": 2}  # the input that a result looks like


@dataclass(frozen=True, kw_only=True)
class SequenceSubject:
    """See contract.Subject. Inputs and results are in the implementation's own layout; `numpy`
    gives [batch, heads, ...]."""

    implementation: Implementation
    host: Host  # with the device of this call as its only one
    device: str
    framework: ModuleType
    function: Callable[..., Any]
    workload: Workload
    inputs: tuple[Any, ...]
    grad_out: Any
    options: dict[str, Any]
    as_models_lay_out: bool = False  # dO
    # The result of a case in a second process, where there is one.
    in_second_process: Callable[[WorkloadSpec], Any] | None = field(default=None, compare=False)
    timer: Any = None
    state: dict[str, Any] = field(default_factory=dict)

    kind = "sequence"
    level = "kernel"
    gradient_names = ("dq", "dk", "dv")

    @property
    def name(self) -> str:
        return self.implementation.name

    @property
    def identity(self) -> WorkloadIdentity:
        return self.workload.identity

    @property
    def accepts(self) -> frozenset[str]:
        return self.implementation.accepts

    @property
    def has_backward(self) -> bool:
        return self.implementation.has_backward(self.host)

    def __call__(self) -> Any:
        return self.apply(*self.inputs)

    def apply(self, *inputs: Any, **options: Any) -> Any:
        """Call the implementation on other inputs of the same shapes, or with further options."""
        return self.function(*inputs, **self.options, **options)

    def compiled(self) -> "SequenceSubject":
        """The same as it is timed: where the passes of training are compiled, so is the forward."""
        compiled = getattr(self.framework, "compiled", None)
        return replace(self, function=compiled(self.function)) if compiled else self

    def gradients(
        self, *, wanted: tuple[bool, bool, bool] = ALL, grad_out: Any = None, **options: Any
    ) -> tuple[Any, tuple[Any, ...]]:
        """Return the output and the gradients of q, k and v."""
        sent = self.grad_out if grad_out is None else grad_out
        return self.framework.gradients(
            partial(self.apply, **options), self.inputs, sent, wanted=wanted
        )

    def synchronize(self) -> None:
        self.framework.synchronize(self.device)

    def numpy(self, array: Any, index: Index | None = None) -> np.ndarray:
        """Return an output, a gradient or an LSE as float64 [batch, heads, seq, dim] or [.., seq],
        or what lies at `index` of it, integer arrays for batch, head and row."""
        own = self.implementation.layout == "BSHD" and len(array.shape) == 4
        plain = self.framework.swapped(array, 1, 2) if own else array
        return self.framework.numpy(plain if index is None else self.framework.taken(plain, index))

    def placed(self, array: np.ndarray, layout: str = "plain") -> Any:
        """Put a [batch, heads, seq, dim] array where and as this implementation is given it."""
        own = array.swapaxes(1, 2) if self.implementation.layout == "BSHD" else array
        return self.framework.place(own, self.workload.spec.dtype, self.device, layout=layout)

    def on(self, workload: Workload) -> "SequenceSubject":
        """Bind the same implementation to another workload; raises Unsupported as `bind` does."""
        bound = bind_loaded(self.implementation, workload, host=self.host, device=self.device)
        return replace(bound, in_second_process=self.in_second_process)

    def repeated(self, count: int) -> "SequenceSubject":
        """The same on its batch `count` times, for sizes that only the device can hold."""
        inputs = tuple(self.framework.tiled(array, count) for array in self.inputs)
        if not self.orders_gradients:
            return replace(self, inputs=inputs, grad_out=self.framework.tiled(self.grad_out, count))
        swapped = self.framework.tiled(self.framework.swapped(self.grad_out, 1, 2), count)
        return replace(self, inputs=inputs, grad_out=self.framework.swapped(swapped, 1, 2))

    @property
    def orders_gradients(self) -> bool:
        """True where a model sends dO back in another order than that of a plain array: its
        projection takes [batch, seq, heads, dim]."""
        own = self.implementation
        has_strides = "transposed" in self.framework.layouts()
        return has_strides and own.layout == "BHSD" and not own.limits.contiguous

    def as_in_models(self) -> "SequenceSubject":
        """The same with dO in the order in which models send it back."""
        if not self.orders_gradients:
            return self
        laid_out = self.placed(self.workload.grad_out, "transposed")
        return replace(self, grad_out=laid_out, as_models_lay_out=True)

    def renewed(self, change: InputChange) -> "SequenceSubject":
        times = change.multipliers(self.workload.spec)
        arrays = zip(self.inputs, INPUTS, strict=True)
        return replace(
            self, inputs=tuple(self.framework.times(array, times[name]) for array, name in arrays)
        )

    def restore(self) -> None:
        for array, name in zip(self.inputs, INPUTS, strict=True):
            right, layout = getattr(self.workload, name), self.workload.spec.layout_of(name)
            self.framework.overwrite(array, self.placed(right, layout))

    def expected(self, workload: Workload | None = None) -> Expected:
        """Right values of its workload, or of another, and the budgets that it is held to."""
        return expected(workload or self.workload, self.device, self.implementation.precision)

    def places(self, change: InputChange, *, keys: bool = False) -> dict[str, Index]:
        by_row = places(self.workload, change)
        return by_row | key_places(self.workload, change) if keys else by_row

    def spots(self, change: InputChange, *, keys: bool = False) -> Expected:
        precision = self.implementation.precision
        by_row = spots(self.workload, change, precision)
        if not (keys and key_places(self.workload, change)):
            return by_row
        by_key = key_spots(self.workload, change, precision)
        return replace(
            by_row,
            result=replace(by_row.result, dk=by_key.result.dk, dv=by_key.result.dv),
            allowed=by_row.allowed | by_key.allowed,
            index=by_row.index | by_key.index,
        )

    def form_problem(self, tensor: str, array: Any) -> str | None:
        like = self.inputs[_LIKE[tensor]]
        if array is None and tensor != "out":
            return f"{tensor}: no gradient arrives; the output does not depend on this input"
        if not self.framework.is_array(array):
            wanted = self.implementation.framework
            kind = f"{type(array).__module__}.{type(array).__name__}"
            return f"{tensor} is a {kind}, wanted a plain array of {wanted}, in memory: no subclass"
        shape, dtype = tuple(like.shape), self.framework.dtype_name(like)
        if tensor == "lse":
            spec = self.workload.spec
            shape, dtype = (spec.batch, spec.heads, spec.query_length), "float32"
        if tuple(array.shape) != shape:
            return f"{tensor} has shape {tuple(array.shape)}, wanted {shape}"
        if self.framework.dtype_name(array) != dtype:
            return f"{tensor} has dtype {self.framework.dtype_name(array)}, wanted {dtype}"
        return None

    def consistency(self, out: Any, gradients: tuple[Any, ...]) -> list[TensorComparison]:
        return []  # the reference covers every result

    def result_bytes(self, *, training: bool) -> dict[str, int]:
        spec = self.workload.spec
        sizes = {"out": query_bytes(spec)}
        if training:
            sizes |= {"dq": query_bytes(spec), "dk": key_bytes(spec), "dv": key_bytes(spec)}
        return sizes

    def work(self) -> tuple[Work, dict[str, str]]:
        return work.of(self.workload), WORK_FORMULAS


# Arrays that are placed, by framework and layout, for all implementations of one workload.
Placed = dict[tuple[str, str], tuple[Any, ...]]


def bind(
    name: str,
    workload: Workload,
    *,
    host: Host,
    device: str,
    folders: Sequence[Path] = (),
    placed: Placed | None = None,
) -> SequenceSubject:
    """Load `name` and place the workload's arrays; raises Unsupported with its own reason.

    With `placed`, implementations of one framework and layout are given the very same arrays.
    """
    implementation = contract.load(name, folders)
    return bind_loaded(implementation, workload, host=host, device=device, placed=placed)


def bind_loaded(
    implementation: Implementation,
    workload: Workload,
    *,
    host: Host,
    device: str,
    placed: Placed | None = None,
) -> SequenceSubject:
    """As `bind`, with an implementation that is loaded."""
    spec = workload.spec
    here = replace(host, devices=tuple(d for d in host.devices if d.label == device))
    framework = framework_of(implementation)
    refusal = implementation.refusal(spec, here)
    if not refusal and spec.layout.rpartition("-")[2] not in ("plain", *framework.layouts()):
        refusal = f"{implementation.framework} has no arrays that lie in memory as {spec.layout}"
    if refusal:
        raise Unsupported(refusal)
    call = SequenceSubject(
        implementation=implementation,
        host=here,
        device=device,
        framework=framework,
        # What compiles for a workload sees its shapes, not the seed that its values come from.
        function=implementation.for_workload(replace(spec, seed=0)),
        workload=workload,
        inputs=(),
        grad_out=None,
        options={"causal": spec.causal, "scale": spec.scale, **_marks(framework, workload, device)},
    )
    placed = {} if placed is None else placed
    form = (implementation.framework, implementation.layout)
    if form not in placed:
        own = {name: getattr(workload, name) for name in INPUTS}
        inputs = tuple(call.placed(array, spec.layout_of(name)) for name, array in own.items())
        placed[form] = (inputs, call.placed(workload.grad_out, spec.layout_of("dO")))
    inputs, grad_out = placed[form]
    return replace(call, inputs=inputs, grad_out=grad_out)


def _marks(framework: ModuleType, workload: Workload, device: str) -> dict[str, Any]:
    """The masks of a workload, as the implementation is given them."""
    marks: dict[str, Any] = {"window": workload.spec.window} if workload.spec.window else {}
    if workload.lengths is not None:
        marks["lengths"] = framework.marks(workload.lengths, device)
    if workload.mask is not None:
        marks["mask"] = framework.marks(workload.mask, device)
    if workload.cu_seqlens is not None:
        marks["cu_seqlens"] = tuple(framework.marks(a, device) for a in workload.cu_seqlens)
    return marks


def framework_of(implementation: Implementation) -> ModuleType:
    """The framework that an implementation names: one of ours, or a user's beside its file."""
    file, name = implementation.path, implementation.framework
    own = file is None or name in plugins.listing("frameworks")
    return framework_named(name, () if own else plugins.folders_beside(file))


def framework_named(name: str, folders: Sequence[Path] = ()) -> ModuleType:
    """The module through which arrays enter and leave the framework `name`."""
    return plugins.load(plugins.find("frameworks", name, folders))
