"""One implementation bound to one workload on one device: what probes are handed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from assay import plugins
from assay.attention import contract
from assay.host import Host
from assay.workloads.synthetic import Workload

INPUTS = ("q", "k", "v")


@dataclass(frozen=True, kw_only=True)
class Call:
    """Calling it runs the forward pass; the framework's own array comes back, maybe unfinished."""

    name: str
    device: str
    framework: ModuleType
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    grad_out: Any
    causal: bool
    scale: float

    def __call__(self) -> Any:
        return self.apply(*self.inputs)

    def apply(self, *inputs: Any) -> Any:
        """The implementation on other inputs of the same shapes."""
        return self.function(*inputs, causal=self.causal, scale=self.scale)

    def gradients(self) -> tuple[Any, tuple[Any, ...]]:
        """The output and the gradients of q, k and v."""
        return self.framework.gradients(self.apply, self.inputs, self.grad_out)

    def synchronize(self) -> None:
        self.framework.synchronize(self.device)


class Unsupported(Exception):
    """The implementation itself says that this workload is not for it."""


def bind(
    name: str, workload: Workload, *, host: Host, device: str, folders: Sequence[Path] = ()
) -> Call:
    """Load `name` and place the workload's arrays; raises Unsupported with its own reason."""
    implementation = contract.load(name, folders)
    refusal = implementation.supports(workload.spec, host)
    if refusal:
        raise Unsupported(refusal)
    framework = framework_named(implementation.framework)
    arrays = (workload.q, workload.k, workload.v, workload.grad_out)
    *inputs, grad_out = (framework.place(array, workload.spec.dtype, device) for array in arrays)
    return Call(
        name=implementation.name,
        device=device,
        framework=framework,
        function=implementation.for_workload(workload.spec),
        inputs=tuple(inputs),
        grad_out=grad_out,
        causal=workload.spec.causal,
        scale=workload.spec.scale,
    )


def framework_named(name: str) -> ModuleType:
    """The file that knows how arrays enter and leave the framework `name`."""
    return plugins.load(plugins.find("frameworks", name))
