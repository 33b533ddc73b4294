"""A look as plain data, for JSON: every number that a table or a picture is made from."""

import dataclasses
from typing import Any

import msgspec
import numpy as np

from assay.captures.inspect.channels import Channels
from assay.captures.inspect.summary import CallSummary, TensorSummary


def as_json(call: CallSummary) -> dict[str, Any]:
    """One JSON object; what is not known is null, and a key beside it says why."""
    key = call.key
    return {
        "name": call.name,
        "run": key.run if key else None,
        "rank": key.rank if key else None,
        "step": key.step if key else None,
        "layer": key.layer if key else None,
        "site": key.site if key else None,
        "call": key.call if key else None,
        "phase": call.phase,
        "mode": call.mode,
        "framework": call.framework,
        "implementation": call.implementation,
        "device": call.device,
        "scalars": dict(call.scalars),
        "cut": dict(call.cut),
        "stored_bytes": call.stored_bytes,
        "tensors": {name: _tensor(tensor) for name, tensor in call.tensors.items()},
        "attention": _attention(call),
        "why_no_attention": call.why_no_attention,
    }


def _tensor(tensor: TensorSummary) -> dict[str, Any]:
    return {
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "nbytes": tensor.nbytes,
        "order": tensor.order,
        "stats": msgspec.to_builtins(tensor.stats),
        "log2_magnitudes": _optional(tensor.magnitudes),
        "deviations_in_std": _optional(tensor.deviations),
        "channels": _channels(tensor.channels) if tensor.channels else None,
        "why": tensor.why,
    }


def _channels(channels: Channels) -> dict[str, Any]:
    return {
        "median_absmax_of_heads": np.median(channels.absmax_HD, axis=1).tolist(),
        "outliers": [dataclasses.asdict(outlier) for outlier in channels.outliers],
        "why": channels.why,
    }


def _attention(call: CallSummary) -> dict[str, Any] | None:
    if call.attention is None:
        return None
    return {**dataclasses.asdict(call.attention), "sampled": call.attention.sampled}


def _optional(value: Any) -> dict[str, Any] | None:
    return dataclasses.asdict(value) if value is not None else None
