"""Layers by name: every file of layers/ with each of its cores, as in gemma:cudnn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import plugins
from assay.errors import BadInput
from assay.host import Host
from assay.plugins import Plugin
from assay.workloads.spec import WorkloadSpec

KIND = "layers"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer with one of its cores."""

    name: str  # layer:core
    core: str
    framework: str
    heads: tuple[tuple[int, int, int], ...]
    cache: str = ""  # tokens or slots: see layers/__init__.py
    deterministic_backward: bool = True
    init: Callable[[WorkloadSpec, Mapping[str, Any]], dict[str, Any]]
    apply: Callable[..., tuple[Any, Any]]
    supports: Callable[[WorkloadSpec, Host, str], str | None] = lambda spec, host, core: None

    def refusal(self, spec: WorkloadSpec, host: Host) -> str | None:
        """The reason why it cannot be given this workload; None where it can."""
        return unsuitable(spec, self.heads) or self.supports(spec, host, self.core)


def names(folders: Sequence[Path] = ()) -> tuple[str, ...]:
    """Every layer with every core that it has, layer:core; imports none."""
    return tuple(
        f"{name}:{core}"
        for name, plugin in sorted(plugins.listing(KIND, folders).items())
        for core in plugin.literals["CORES"]
    )


def find(name: str, folders: Sequence[Path] = ()) -> Plugin:
    """The file of layer:core."""
    plugin = plugins.find(KIND, name.partition(":")[0], folders)
    if name not in names(folders):
        cores = ", ".join(plugin.literals["CORES"])
        raise BadInput(f"{name!r} is not layer:core; the cores of {plugin.name} are {cores}")
    return plugin


def suits(name: str, spec: WorkloadSpec, folders: Sequence[Path] = ()) -> bool:
    """True where a layer could be given this workload, going by its text alone."""
    return unsuitable(spec, find(name, folders).literals["HEADS"]) is None


def unsuitable(spec: WorkloadSpec, heads: Sequence[Sequence[int]]) -> str | None:
    """The reason why a workload is not for a layer with these heads, called as in training."""
    usual = spec.values == "normal" and spec.layout == "plain" and spec.scale_percent == 100
    if not spec.causal or spec.extras or spec.query_length != spec.key_length or not usual:
        return "a layer is given as many queries as keys, a causal mask and nothing unusual"
    wanted = (spec.heads, spec.kv_heads, spec.head_dim)
    if heads and wanted not in map(tuple, heads):
        known = ", ".join("{}/{} x {}".format(*sizes) for sizes in heads)
        return f"it is built for heads {known}, not for {'{}/{} x {}'.format(*wanted)}"
    return None


def load(name: str, folders: Sequence[Path] = ()) -> Layer:
    """The layer of layer:core; imports its framework."""
    plugin = find(name, folders)
    module = plugins.load(plugin)
    core = name.partition(":")[2]
    optional = {"supports": module.supports} if hasattr(module, "supports") else {}
    return Layer(
        name=name,
        core=core,
        framework=plugin.literals["FRAMEWORK"],
        heads=tuple(map(tuple, plugin.literals["HEADS"])),
        cache=plugin.literals["CACHE"],
        deterministic_backward=core not in plugin.literals["ATOMIC_CORES"],
        init=module.init,
        apply=module.apply,
        **optional,
    )
