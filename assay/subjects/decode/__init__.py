"""A decode kernel bound to one workload on one device: a step of decoding through a cache.

A workload's queries are the new tokens, its keys those of the cache, the new tokens' own among
them. Subjects are called LAYOUT:FILE: the tensors of a layout, as a cache holds them, read by a
file of attention/decode. The answer is linear in the values, which a round of timing writes anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.captures.inputs import make
from assay.host import Host
from assay.kv import contract as layouts
from assay.kv.contract import Layout
from assay.records.schema import WorkloadIdentity
from assay.subjects import sampling
from assay.subjects.change import InputChange
from assay.subjects.contract import Expected, Index, TensorComparison
from assay.subjects.decode import cache, names
from assay.subjects.decode.cache import DecodedArray, HeldCache
from assay.subjects.expected import expected
from assay.subjects.outcome import Unsupported
from assay.subjects.sequence import framework_named
from assay.subjects.spots import places, spots
from assay.workloads.work import Work, query_bytes, visible_pairs
from assay.workloads.workload import Workload

if TYPE_CHECKING:
    from assay.attention.decoders import DecodeKernel

__all__ = ["CacheReader", "DecodeSubject", "bind", "bind_loaded", "load", "make"]

FRAMEWORK = "torch"
WORK_FORMULAS = {
    "forward_flops": "formula: 2 for each number of a key and of a value, for each visible pair of "
    "new token and key and each query head",
    "backward_flops": "formula: nothing is sent back through a cache",
    "forward_bytes": "formula: the cache and q read once, out written once",
    "backward_bytes": "formula: nothing is sent back through a cache",
    "kv_cache_bytes": "formula: the streams of the layout, for each token that the cache holds",
}
_NO_KERNEL = "No available kernel"  # of torch's attention, as cuDNN's for a single key
_PAIRS, _ROWS = 24, 16  # of sequence and head that are looked at in a large cache, and rows of each


@dataclass(frozen=True, kw_only=True)
class CacheReader:
    """A file of attention/decode and the layout that it reads."""

    name: str  # LAYOUT:FILE
    path: Path
    layout: Layout
    kernel: "DecodeKernel"

    framework = FRAMEWORK

    @property
    def accepts(self) -> frozenset[str]:
        return self.kernel.accepts

    @property
    def deterministic(self) -> bool:
        return self.kernel.deterministic

    @property
    def kernels(self) -> dict[str, str]:
        return self.kernel.kernels


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodeSubject:
    """See contract.Subject. `inputs` are q and the streams of the cache, in the layout's order."""

    implementation: CacheReader
    host: Host  # with the device of this call as its only device
    device: str
    framework: ModuleType
    workload: Workload
    cache: HeldCache
    right: Workload  # with keys and values as the cache gives them back
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    timer: Any = None
    state: dict[str, Any] = field(default_factory=dict)

    kind = names.KIND
    level = "kernel"
    has_backward = False
    gradient_names = ()
    grad_out = None
    in_second_process = None

    @property
    def name(self) -> str:
        return self.implementation.name

    @property
    def identity(self) -> WorkloadIdentity:
        return self.workload.identity

    @property
    def accepts(self) -> frozenset[str]:
        return self.implementation.accepts

    def __call__(self) -> Any:
        return self.apply(*self.inputs)

    def apply(self, *inputs: Any, **options: Any) -> Any:
        """Call the kernel on other tensors of the same shapes, or with further options; raises
        Unsupported where torch says that the backend it is to use has no kernel for them."""
        q, *tensors = inputs
        streams = dict(zip(self.cache.streams, tensors, strict=True))
        try:
            return self.implementation.kernel.decode(q, streams, **self.options, **options)
        except RuntimeError as error:
            if not str(error).startswith(_NO_KERNEL):
                raise
            raise Unsupported(f"{error} (torch, at {self.workload.spec.name})") from error

    def gradients(self) -> tuple[Any, tuple[Any, ...]]:
        raise Unsupported("nothing is sent back through a cache")

    def synchronize(self) -> None:
        self.framework.synchronize(self.device)

    def numpy(self, array: Any, index: Index | None = None) -> np.ndarray:
        return self.framework.numpy(array if index is None else self.framework.taken(array, index))

    def on(self, workload: Workload) -> "DecodeSubject":
        """Bind the same kernel to another workload; raises Unsupported as `bind` does."""
        return bind_loaded(self.implementation, workload, host=self.host, device=self.device)

    def renewed(self, change: InputChange) -> "DecodeSubject":
        """Latents are key and value at once: the queries are divided by the factor."""
        signs = change.multipliers(self.workload.spec, cached=True)["q"]
        divisor = change.factor if self.cache.latent else 1.0
        q = self.framework.times(self.inputs[0], signs / np.float32(divisor))
        return replace(self, inputs=(q, *self.cache.renewed(change.factor).values()))

    def restore(self) -> None:
        workload = self.workload
        q = self.framework.place(workload.q, workload.spec.dtype, self.device)
        rights = (q, *self.cache.written_again().values())
        for array, right in zip(self.inputs, rights, strict=True):
            self.framework.overwrite(array, right)

    def expected(self, workload: Workload | None = None) -> Expected:
        """Right values of its workload, or of another; of a large cache, those of some sequences
        and heads."""
        if workload not in (None, self.workload):
            return self.on(workload).expected()
        return self._sampled if isinstance(self.right.k, DecodedArray) else expected(self.right)

    @cached_property
    def _sampled(self) -> Expected:
        some = sampling.sample_rows(self.right, pairs=_PAIRS, rows=_ROWS)
        return Expected(result=some.result, allowed=some.allowed, index=some.index)

    def places(self, change: InputChange, *, keys: bool = False) -> dict[str, Index]:
        return places(self.right, change)

    def spots(self, change: InputChange, *, keys: bool = False) -> Expected:
        return spots(self.right, change, cached=True)

    def form_problem(self, tensor: str, array: Any) -> str | None:
        """Out looks like q, with vectors as wide as a value."""
        if not self.framework.is_array(array):
            return f"{tensor} is a {type(array).__name__}, wanted a tensor of torch: no subclass"
        shape, dtype = self.right.grad_out.shape, self.workload.spec.dtype
        if tensor == "lse":
            shape, dtype = shape[:3], "float32"
        if tuple(array.shape) != shape:
            return f"{tensor} has shape {tuple(array.shape)}, wanted {shape}"
        if self.framework.dtype_name(array) != dtype:
            return f"{tensor} has dtype {self.framework.dtype_name(array)}, wanted {dtype}"
        return None

    def consistency(self, out: Any, gradients: tuple[Any, ...]) -> list[TensorComparison]:
        return []  # the reference covers every result

    def result_bytes(self, *, training: bool) -> dict[str, int]:
        spec = self.workload.spec
        return {"out": query_bytes(replace(spec, head_dim=self.right.grad_out.shape[-1]))}

    def work(self) -> tuple[Work, dict[str, str]]:
        spec, layout = self.workload.spec, self.implementation.layout
        held = cache.cache_bytes(self.workload, layout)
        numbers = spec.head_dim + self.right.grad_out.shape[-1]
        work = Work(
            forward_flops=2 * numbers * spec.heads * visible_pairs(self.right),
            backward_flops=0,
            forward_bytes=held
            + query_bytes(spec)
            + sum(self.result_bytes(training=False).values()),
            backward_bytes=0,
            kv_cache_bytes=held,
        )
        return work, WORK_FORMULAS


# What is on the device: q, k and v, and the cache of each layout with what it gives back.
Placed = dict[str, Any]


def load(name: str, folders: Sequence[Path] = ()) -> CacheReader:
    """The reader of LAYOUT:FILE, or of a file that reads one layout; imports torch."""
    from assay.attention import decoders

    whole, file = names.completed(name, folders), names.place(name)
    layout = whole.partition(":")[0]
    return CacheReader(
        name=whole,
        path=names.find(file, folders).path,
        layout=layouts.load(layout, tuple(folders)),
        kernel=decoders.load(file, tuple(folders)),
    )


def bind(
    name: str,
    workload: Workload,
    *,
    host: Host,
    device: str,
    folders: Sequence[Path] = (),
    placed: Placed | None = None,
) -> DecodeSubject:
    """Load LAYOUT:FILE and encode the workload's keys and values; raises Unsupported with the
    kernel's own reason, or the layout's.

    With `placed`, files that read one layout are given the very same tensors.
    """
    reader = load(name, folders)
    return bind_loaded(reader, workload, host=host, device=device, placed=placed)


def bind_loaded(
    reader: CacheReader,
    workload: Workload,
    *,
    host: Host,
    device: str,
    placed: Placed | None = None,
) -> DecodeSubject:
    """As `bind`, with a reader that is loaded."""
    spec, kernel = workload.spec, reader.kernel
    kind = device.partition(":")[0]
    refusal = cache.refusal(spec, reader.layout) or kernel.supports(
        head_dim=spec.head_dim, dtype=spec.dtype, device=kind
    )
    if not refusal and spec.padded and "lengths" not in reader.accepts:
        refusal = "it takes no lengths"
    if refusal:
        raise Unsupported(refusal)
    framework, placed = framework_named(FRAMEWORK), {} if placed is None else placed
    for name in ("q", "k", "v"):
        if name not in placed:
            placed[name] = framework.place(getattr(workload, name), spec.dtype, device)
    key = f"{reader.layout.name}:"
    if key not in placed:
        held = cache.hold(reader.layout, workload, {n: placed[n] for n in ("k", "v")})
        placed[key] = (held, held.given_back(workload))
    held, right = placed[key]
    return DecodeSubject(
        implementation=reader,
        host=replace(host, devices=tuple(d for d in host.devices if d.label == device)),
        device=device,
        framework=framework,
        workload=workload,
        cache=held,
        right=right,
        inputs=(placed["q"], *held.streams.values()),
        options=_options(reader, held, right, device),
    )


def _options(reader: CacheReader, held: HeldCache, right: Workload, device: str) -> dict[str, Any]:
    """Keyword arguments of every call, with the scratch that a cache keeps from step to step."""
    import torch

    from assay.attention.decoders import shared_scratch

    options: dict[str, Any] = {"scale": right.spec.scale}
    options |= {} if held.lengths is None else {"lengths": held.lengths}
    options |= {"value_width": right.grad_out.shape[-1]} if held.latent else {}
    scratch = shared_scratch(torch.device(device)) if "scratch" in reader.accepts else None
    return options if scratch is None else options | {"scratch": scratch}
