"""What is seen of one captured call: of each tensor its numbers, of the call its attention.

What a record does not have, because statistics or shapes alone were captured, is None here, with a
reason beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.captures.inspect.channels import Channels, channels
from assay.captures.inspect.head_statistics import (
    AttentionMap,
    HeadStatistics,
    attention_map,
    head_statistics,
    median_head,
)
from assay.captures.inspect.histogram import Histogram, deviations, magnitudes
from assay.captures.inspect.scores import attention_call
from assay.captures.manifest import CaptureRecord, Key, Scalar, Statistics, TensorEntry
from assay.captures.statistics import statistics
from assay.captures.tensor import FLOATS, STORED_AS, Tensor
from assay.errors import BadInput

WITH_CHANNELS = ("q", "k", "v", "out")  # [B, H, S, D] in every record


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorSummary:
    """One tensor; `why` says why its numbers, or some of what is told of them, are not there."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    order: str | None = None
    stats: Statistics | None = None
    magnitudes: Histogram | None = None
    deviations: Histogram | None = None
    channels: Channels | None = None
    why: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class CallSummary:
    """One record, or one file of tensors: that has no key, phase and so on."""

    name: str
    tensors: dict[str, TensorSummary]
    attention: HeadStatistics | None
    why_no_attention: str | None
    map: AttentionMap | None = None
    key: Key | None = None
    phase: str | None = None
    mode: str | None = None
    framework: str | None = None
    implementation: str | None = None
    device: str | None = None
    scalars: Mapping[str, Scalar]
    cut: Mapping[str, str]
    stored_bytes: int

    @property
    def pairs(self) -> int:
        """Queries times keys: how much of a call there is to see."""
        if not {"q", "k"} <= set(self.tensors):
            return 0
        return int(np.prod(self.tensors["q"].shape[:3])) * self.tensors["k"].shape[2]


def summarise(
    record: CaptureRecord,
    tensors: Mapping[str, Tensor],
    *,
    with_map: bool = False,
    head: int | None = None,
) -> CallSummary:
    """What there is to see of a record; `tensors` is empty where none are stored.

    With `with_map` also a picture of the weights of one head, that of median entropy where none is
    named.
    """
    absent = f"the record was captured as {record.mode}" if record.mode != "full" else None
    obstacle = absent or _missing(record, tensors)
    found, why, picture = _attention(
        tensors, record.scalars, obstacle, with_map=with_map, head=head
    )
    entries = {
        name: _tensor_look(name, entry, tensors.get(name), absent)
        for name, entry in record.tensors.items()
    }
    return CallSummary(
        name=record.name,
        tensors=entries,
        attention=found,
        why_no_attention=why,
        map=picture,
        key=record.key,
        phase=record.phase,
        mode=record.mode,
        framework=record.framework,
        implementation=record.implementation,
        device=record.device,
        scalars=record.scalars,
        cut=record.cut,
        stored_bytes=record.bytes,
    )


def summarise_tensors(
    name: str, tensors: Mapping[str, Tensor], *, stored_bytes: int
) -> CallSummary:
    """What there is to see of tensors without a record."""
    return CallSummary(
        name=name,
        tensors={n: _numbers(n, tensor, order=None) for n, tensor in tensors.items()},
        attention=None,
        why_no_attention="a file alone does not say scale and causality; inspect its store",
        scalars={},
        cut={},
        stored_bytes=stored_bytes,
    )


def _missing(record: CaptureRecord, tensors: Mapping[str, Tensor]) -> str | None:
    """What the call had and the record lacks: without its mask its weights would be others."""
    for name in ("q", "k", "mask", "bias"):
        entry = record.tensors.get(name)
        if entry is not None and name not in tensors:
            return f"{name} is not stored: {entry.why or 'nothing says why'}"
    return None


def _attention(
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
    obstacle: str | None,
    *,
    with_map: bool,
    head: int | None,
) -> tuple[HeadStatistics | None, str | None, AttentionMap | None]:
    if obstacle:
        return None, obstacle, None
    try:
        call = attention_call(tensors, scalars)
    except BadInput as error:
        return None, str(error), None
    found = head_statistics(call)
    if head is not None and not 0 <= head < call.sizes[1]:
        raise BadInput(f"head {head} is not one of the {call.sizes[1]} heads, counted from 0")
    chosen = median_head(found) if head is None else head
    return found, None, attention_map(call, head=chosen) if with_map else None


def _tensor_look(
    name: str, entry: TensorEntry, tensor: Tensor | None, absent: str | None
) -> TensorSummary:
    if tensor is not None:
        return _numbers(name, tensor, order=entry.order)
    return TensorSummary(
        dtype=entry.dtype,
        shape=tuple(entry.shape),
        nbytes=int(np.prod(entry.shape)) * np.dtype(STORED_AS[entry.dtype]).itemsize,
        order=entry.order,
        stats=entry.stats,
        why=entry.why or absent or "it is not stored",
    )


def _numbers(name: str, tensor: Tensor, *, order: str | None) -> TensorSummary:
    values, real = tensor.numbers(), tensor.dtype in FLOATS
    with_channels = real and name in WITH_CHANNELS and values.ndim == 4
    stats = statistics(tensor, heads_axis=1 if with_channels else None)
    spread = None
    if real and stats.mean is not None and stats.std is not None:
        spread = deviations(values, mean=stats.mean, std=stats.std)
    return TensorSummary(
        dtype=tensor.dtype,
        shape=tuple(tensor.shape),
        nbytes=tensor.nbytes,
        order=order,
        stats=stats,
        magnitudes=magnitudes(values) if real else None,
        deviations=spread,
        channels=channels(values) if with_channels else None,
        why=None if real else f"histograms are of floats, this is {tensor.dtype}",
    )
