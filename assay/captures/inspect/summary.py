"""Summaries of captured calls: numbers of each tensor, and of each call its attention.

What a record does not have, because statistics or shapes alone were captured, is None here, with a
reason beside it.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
import numpy as np

from assay.captures.inspect.distribution import (
    Channels,
    Histogram,
    channels,
    deviations,
    magnitudes,
)
from assay.captures.inspect.head_statistics import (
    AttentionMap,
    HeadStatistics,
    attention_map,
    head_statistics,
    median_head,
)
from assay.captures.inspect.scores import attention_call
from assay.captures.manifest import HEADED, CaptureRecord, Key, Statistics, TensorEntry
from assay.captures.statistics import statistics
from assay.captures.tensor import FLOATS, STORED_AS, Tensor
from assay.errors import BadInput

_FACTS = ("phase", "mode", "framework", "implementation", "device")  # of a record, for JSON


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorSummary:
    """Numbers of one tensor; `why` gives the reason where some of them are missing."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    order: str | None = None
    stats: Statistics | None = None
    log2_magnitudes: Histogram | None = None
    deviations_in_std: Histogram | None = None
    channels: Channels | None = None
    why: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class CallSummary:
    """Summary of one record, or of one file of tensors, which may have no record."""

    name: str
    record: CaptureRecord | None
    stored_bytes: int
    tensors: dict[str, TensorSummary]
    attention: HeadStatistics | None
    why_no_attention: str | None
    map: AttentionMap | None = None

    @property
    def key(self) -> Key | None:
        return self.record.key if self.record else None

    @property
    def phase(self) -> str | None:
        return self.record.phase if self.record else None

    @property
    def pairs(self) -> int:
        """Queries of all heads and rows times keys."""
        return pairs_of(self.tensors)


def summarise(
    record: CaptureRecord,
    tensors: Mapping[str, Tensor],
    *,
    with_map: bool = False,
    head: int | None = None,
) -> CallSummary:
    """Summarise one record; `tensors` is empty where none are stored."""
    absent = f"the record was captured as {record.mode}" if record.mode != "full" else None
    attention, why, picture = _attention(record, tensors, absent, with_map=with_map, head=head)
    return CallSummary(
        name=record.name,
        record=record,
        stored_bytes=record.bytes,
        tensors={
            name: _entry_summary(name, entry, tensors.get(name), absent)
            for name, entry in record.tensors.items()
        },
        attention=attention,
        why_no_attention=why,
        map=picture,
    )


def as_json(call: CallSummary) -> dict[str, Any]:
    """Plain data of a summary, without its map; what is unknown is null with a reason beside it."""
    record, attention = call.record, call.attention
    return {
        "name": call.name,
        **{name: getattr(call.key, name, None) for name in Key.__struct_fields__},
        **{name: getattr(record, name, None) for name in _FACTS},
        "scalars": dict(record.scalars) if record else {},
        "cut": dict(record.cut) if record else {},
        "stored_bytes": call.stored_bytes,
        "tensors": {name: _tensor_as_json(tensor) for name, tensor in call.tensors.items()},
        "attention": attention and {**asdict(attention), "sampled": attention.sampled},
        "why_no_attention": call.why_no_attention,
    }


def pairs_of(tensors: Mapping[str, TensorEntry] | Mapping[str, TensorSummary]) -> int:
    if not {"q", "k"} <= set(tensors):
        return 0
    return math.prod(tensors["q"].shape[:3]) * math.prod(tensors["k"].shape[2:3])


def _attention(
    record: CaptureRecord,
    tensors: Mapping[str, Tensor],
    absent: str | None,
    *,
    with_map: bool,
    head: int | None,
) -> tuple[HeadStatistics | None, str | None, AttentionMap | None]:
    """Statistics of the heads, or the reason why there are none, and a map where wanted."""
    if obstacle := absent or _missing(record, tensors):
        return None, obstacle, None
    try:
        call = attention_call(tensors, record.scalars)
    except BadInput as error:
        return None, str(error), None
    heads = call.sizes[1]
    if head is not None and not 0 <= head < heads:
        raise BadInput(f"head {head} is not one of the {heads} heads, counted from 0")
    attention = head_statistics(call)
    chosen = median_head(attention) if head is None else head
    return attention, None, attention_map(call, head=chosen) if with_map else None


def _missing(record: CaptureRecord, tensors: Mapping[str, Tensor]) -> str | None:
    """Name an input of the weights that the call had and the store lacks."""
    for name in ("q", "k", "mask", "bias"):
        entry = record.tensors.get(name)
        if entry is not None and name not in tensors:
            return f"{name} is not stored: {entry.why or 'nothing says why'}"
    return None


def _entry_summary(
    name: str, entry: TensorEntry, tensor: Tensor | None, absent: str | None
) -> TensorSummary:
    if tensor is not None:
        return tensor_summary(name, tensor, order=entry.order)
    return TensorSummary(
        dtype=entry.dtype,
        shape=tuple(entry.shape),
        nbytes=math.prod(entry.shape) * np.dtype(STORED_AS[entry.dtype]).itemsize,
        order=entry.order,
        stats=entry.stats,
        why=entry.why or absent or "it is not stored",
    )


def tensor_summary(name: str, tensor: Tensor, *, order: str | None = None) -> TensorSummary:
    """Summarise one tensor; of q, k, v and out [B, H, S, D] also the channels."""
    values, real = tensor.numbers(), tensor.dtype in FLOATS
    with_channels = real and name in HEADED and values.ndim == 4
    stats = statistics(tensor, heads_axis=1 if with_channels else None)
    known = real and stats.mean is not None
    return TensorSummary(
        dtype=tensor.dtype,
        shape=tuple(tensor.shape),
        nbytes=tensor.nbytes,
        order=order,
        stats=stats,
        log2_magnitudes=magnitudes(values) if real else None,
        deviations_in_std=deviations(values, mean=stats.mean, std=stats.std) if known else None,
        channels=channels(values) if with_channels else None,
        why=None if real else f"histograms are of floats, this is {tensor.dtype}",
    )


def _tensor_as_json(tensor: TensorSummary) -> dict[str, Any]:
    plain = msgspec.to_builtins(replace(tensor, channels=None))
    if tensor.channels:
        plain["channels"] = {
            "median_absmax_of_heads": np.median(tensor.channels.absmax_HD, axis=1).tolist(),
            "outliers": [asdict(outlier) for outlier in tensor.channels.outliers],
            "why": tensor.channels.why,
        }
    return plain
