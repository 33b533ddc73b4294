"""One implementation bound to one workload on one device: what probes are handed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from assay import plugins
from assay.attention import contract
from assay.attention.contract import Implementation
from assay.host import Host
from assay.subjects.outcome import Unsupported
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

INPUTS = ("q", "k", "v")
ALL = (True, True, True)


@dataclass(frozen=True, kw_only=True)
class SequenceSubject:
    """Calling it runs the forward pass; the framework's own array comes back, maybe unfinished.

    Inputs and results are in the implementation's own layout; `numpy` gives [batch, heads, ...].
    """

    implementation: Implementation
    host: Host  # with the device of this call as its only one
    device: str
    framework: ModuleType
    function: Callable[..., Any]
    workload: Workload
    inputs: tuple[Any, ...]
    grad_out: Any
    options: dict[str, Any]
    # What became of a case in another process (twin.Elsewhere), where there is one.
    elsewhere: Callable[[WorkloadSpec], Any] | None = field(default=None, compare=False)
    timer: Any = None  # timing.Timer, while something is timed
    state: dict[str, Any] = field(default_factory=dict)  # what a timed probe makes only once

    @property
    def name(self) -> str:
        return self.implementation.name

    @property
    def has_backward(self) -> bool:
        return self.implementation.has_backward(self.host)

    def __call__(self) -> Any:
        return self.apply(*self.inputs)

    def apply(self, *inputs: Any, **options: Any) -> Any:
        """The implementation on other inputs of the same shapes, or with further options."""
        return self.function(*inputs, **self.options, **options)

    def gradients(
        self, *, wanted: tuple[bool, bool, bool] = ALL, grad_out: Any = None, **options: Any
    ) -> tuple[Any, tuple[Any, ...]]:
        """The output and the gradients of q, k and v."""
        sent = self.grad_out if grad_out is None else grad_out
        return self.framework.gradients(
            partial(self.apply, **options), self.inputs, sent, wanted=wanted
        )

    def numpy(self, array: Any, index: tuple[Any, ...] | None = None) -> Any:
        """An output, a gradient or an LSE as float64, [batch, heads, seq, dim] or [.., seq]; or
        what lies at `index` of it, integer arrays for batch, head and place."""
        turned = self._turned(array)
        return self.framework.numpy(
            turned if index is None else self.framework.taken(turned, index)
        )

    def placed(self, array: Any, layout: str = "plain") -> Any:
        """A [batch, heads, seq, dim] NumPy array as this implementation is given it."""
        own = array.swapaxes(1, 2) if self.implementation.layout == "BSHD" else array
        return self.framework.place(own, self.workload.spec.dtype, self.device, layout=layout)

    def on(self, workload: Workload) -> "SequenceSubject":
        """The same implementation on another workload; raises Unsupported as `bind` does."""
        bound = bind_loaded(self.implementation, workload, host=self.host, device=self.device)
        return replace(bound, elsewhere=self.elsewhere)

    def synchronize(self) -> None:
        self.framework.synchronize(self.device)

    def _turned(self, array: Any) -> Any:
        turn = self.implementation.layout == "BSHD" and len(array.shape) == 4
        return self.framework.swapped(array, 1, 2) if turn else array


def require_backward(call: SequenceSubject) -> None:
    """Raise Unsupported for an implementation without a backward pass here."""
    if not call.has_backward:
        raise Unsupported("it says that it has no backward here")


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
    framework = framework_named(implementation.framework)
    refusal = implementation.refusal(spec, here)
    if not refusal and spec.layout not in ("plain", *framework.layouts()):
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
        arrays = (workload.q, workload.k, workload.v)
        inputs = tuple(call.placed(array, spec.layout) for array in arrays)
        placed[form] = (inputs, call.placed(workload.grad_out))
    inputs, grad_out = placed[form]
    return replace(call, inputs=inputs, grad_out=grad_out)


def _marks(framework: ModuleType, workload: Workload, device: str) -> dict[str, Any]:
    """The masks of a workload, as the implementation is given them."""
    found: dict[str, Any] = {"window": workload.spec.window} if workload.spec.window else {}
    if workload.lengths is not None:
        found["lengths"] = framework.marks(workload.lengths, device)
    if workload.mask is not None:
        found["mask"] = framework.marks(workload.mask, device)
    if workload.cu_seqlens is not None:
        found["cu_seqlens"] = tuple(framework.marks(a, device) for a in workload.cu_seqlens)
    return found


def framework_named(name: str) -> ModuleType:
    """The file that knows how arrays enter and leave the framework `name`."""
    return plugins.load(plugins.find("frameworks", name))
