"""One call of an attention on its way from a model to the store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assay.captures.manifest import Key, Phase, Scalar, Statistics, TensorEntry
from assay.captures.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class LoadedTensors:
    """Tensors that reached the host, or statistics that were computed where they lay."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    stats: Mapping[str, Statistics] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CapturedCall:
    """What a model gives. `load` runs later, in the writer's thread, and may wait for a copy.

    What `load` gives must not change until `release` is called, which happens once for every
    CapturedCall that was put: written, dropped or refused as a duplicate.
    """

    key: Key
    phase: Phase
    framework: str
    device: str
    implementation: str | None
    scalars: Mapping[str, Scalar]
    shapes: Mapping[str, TensorEntry]  # of what `load` will give, and of what is left out and why
    nbytes: int  # what it holds in memory until it is written
    load: Callable[[], LoadedTensors] | None = None  # not called where only shapes are kept
    release: Callable[[], None] | None = None
    axes: Mapping[str, int] = field(default_factory=dict)  # along which a cache grows, by tensor
    cut: Mapping[str, str] = field(default_factory=dict)  # what was left out on purpose
    time: str | None = None  # of day, in UTC; when it is written where not given
