"""The contract of an implementation: how every attention function is loaded and called."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from assay import plugins
from assay.attention import interpreted, limits, precision
from assay.attention.limits import WorkloadLimits
from assay.attention.precision import PLAIN, Precision
from assay.errors import BadInput
from assay.host import Host
from assay.workloads.spec import WorkloadSpec

KIND = "sequence"
EXTRAS = ("mask", "lengths", "cu_seqlens", "window", "softcap", "sinks", "lse", "dropout")
DEVICE_KINDS = ("cpu", "cuda", "rocm")


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """`attention(q, k, v, *, causal, scale)`, [batch, heads, seq, dim] or its own LAYOUT."""

    name: str
    attention: Callable[..., Any]
    framework: str = "torch"
    supports: Callable[[WorkloadSpec, Host], str | None] = lambda spec, host: None
    prepare: Callable[[WorkloadSpec], Callable[..., Any]] | None = None
    accepts: frozenset[str] = frozenset()
    limits: WorkloadLimits = field(default_factory=WorkloadLimits)
    precision: Precision = PLAIN
    layout: Literal["BHSD", "BSHD"] = "BHSD"
    configs: tuple[str, ...] = ()
    backward: bool | Literal["gpu"] = True
    deterministic_backward: bool = True
    # Names of its kernels (on a CPU, operators): a regular expression by kind of device.
    kernels: dict[str, str] = field(default_factory=dict, hash=False)
    # Bytes above the inputs at the peak, by tensor: memory(spec, training=..., device="cpu").
    memory: Callable[..., dict[str, int]] | None = None
    path: Path | None = None  # the file it was loaded from
    interpreted: bool = False  # its kernels run in Triton's interpreter

    def refusal(self, spec: WorkloadSpec, host: Host) -> str | None:
        """The reason why it does not take this workload; None where it does."""
        lacking = sorted(spec.extras - self.accepts)
        if lacking:
            return f"it does not say that it accepts {', '.join(lacking)}"
        if self.interpreted and spec.dtype == interpreted.WRONG_DTYPE:
            return interpreted.REFUSAL
        if beyond := self.limits.refusal(spec):
            return f"it takes {beyond}"
        return self.supports(spec, host)

    def has_backward(self, host: Host) -> bool:
        return bool(host.accelerators) if self.backward == "gpu" else self.backward

    def for_workload(self, spec: WorkloadSpec) -> Callable[..., Any]:
        """The function to call on this workload's arrays; compiles where the file says so."""
        return self.prepare(spec) if self.prepare else self.attention


def load(name: str, folders: Sequence[Path] = ()) -> Implementation:
    """The implementation called `name`, or in the file `name`; imports its framework."""
    plugin = plugins.find(KIND, name, folders)
    module = plugins.load(plugin)
    if not callable(module.attention):
        kind = type(module.attention).__name__
        raise BadInput(f"{plugin.path}: attention is a {kind}, wanted a function")
    optional = {
        key: getattr(module, key)
        for key in ("supports", "prepare", "memory")
        if hasattr(module, key)
    }
    place = str(plugin.path)
    # All but the framework, which must be known before the file is run, may be computed.
    stated = {name: getattr(module, name, value) for name, value in plugin.literals.items()}
    accepts = frozenset(_names("ACCEPTS", stated["ACCEPTS"], place=place))
    if unknown := sorted(accepts - set(EXTRAS)):
        raise BadInput(
            f"{plugin.path}: ACCEPTS names {', '.join(unknown)}; wanted some of {', '.join(EXTRAS)}"
        )
    if stated["LAYOUT"] not in ("BHSD", "BSHD"):
        raise BadInput(f"{plugin.path}: LAYOUT {stated['LAYOUT']!r} is not BHSD or BSHD")
    _check_kernels(stated["KERNELS"], place=place)
    return Implementation(
        name=plugin.name,
        attention=module.attention,
        framework=plugin.literals["FRAMEWORK"],
        accepts=accepts,
        limits=limits.parse(stated["LIMITS"], place=place),
        precision=precision.parse(stated["FLOAT32"], stated["FP8"], place=place),
        layout=stated["LAYOUT"],
        configs=_names("CONFIGS", stated["CONFIGS"], place=place),
        backward=switch("BACKWARD", stated["BACKWARD"], "gpu", place=place),
        deterministic_backward=switch(
            "DETERMINISTIC_BACKWARD", stated["DETERMINISTIC_BACKWARD"], place=place
        ),
        kernels=stated["KERNELS"],
        path=plugin.path,
        interpreted=interpreted.has_interpreted_kernels(module),
        **optional,
    )


def _names(literal: str, stated: object, *, place: str) -> tuple[str, ...]:
    """Names as a file states them; BadInput for anything but a list, tuple or the like of them."""
    if isinstance(stated, str) or not isinstance(stated, Collection):
        wanted = "a tuple of names such as ('NAME',)"
        raise BadInput(f"{place}: {literal} is {stated!r}; wanted {wanted}")
    for name in stated:
        if not isinstance(name, str) or not name:
            raise BadInput(f"{place}: {literal} has {name!r}; wanted names, each a text")
    return tuple(stated)


def switch(literal: str, stated: object, *words: str, place: str) -> Any:
    """True, False or one of some words as a file states it; BadInput for anything else."""
    if not isinstance(stated, bool) and stated not in words:
        wanted = ", ".join(map(repr, (True, False, *words)))
        raise BadInput(
            f"{place}: {literal} is {stated!r}; wanted one of {wanted}: see docs/plugins.md"
        )
    return stated


def _check_kernels(declared: object, *, place: str) -> None:
    """Refuse KERNELS that is no dict from kinds of device to regular expressions."""
    wanted = f"{place}: KERNELS is {declared!r}; wanted {{'cuda': 'regular expression', ...}}"
    if not isinstance(declared, dict) or set(declared) - set(DEVICE_KINDS):
        raise BadInput(f"{wanted} with keys of {', '.join(DEVICE_KINDS)}")
    for pattern in declared.values():
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise BadInput(f"{wanted}: {error}") from error
