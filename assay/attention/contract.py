"""How an implementation is loaded and asked: the one door to every attention function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import plugins
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

KIND = "sequence"


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """A loaded implementation: `attention(q, k, v, *, causal, scale)`, [batch, heads, seq, dim]."""

    name: str
    framework: str
    attention: Callable[..., Any]
    supports: Callable[[WorkloadSpec, Host], str | None]
    prepare: Callable[[WorkloadSpec], Callable[..., Any]] | None

    def for_workload(self, spec: WorkloadSpec) -> Callable[..., Any]:
        """The function to call on this workload's arrays; compiles where the file says so."""
        return self.prepare(spec) if self.prepare else self.attention


def load(name: str, folders: Sequence[Path] = ()) -> Implementation:
    """The implementation called `name`, or in the file `name`; imports its framework."""
    plugin = plugins.find(KIND, name, folders)
    module = plugins.load(plugin)
    return Implementation(
        name=plugin.name,
        framework=plugin.literals["FRAMEWORK"],
        attention=module.attention,
        supports=getattr(module, "supports", _supports_everything),
        prepare=getattr(module, "prepare", None),
    )


def _supports_everything(spec: WorkloadSpec, host: Host) -> str | None:
    return None
