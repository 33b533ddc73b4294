"""A look as plain data, for JSON: every number that a table or a picture is made from."""

import dataclasses
from typing import Any

import msgspec
import numpy as np

from assay.captures.inspect.channels import Channels
from assay.captures.inspect.look import Look, TensorLook


def as_plain(look: Look) -> dict[str, Any]:
    """One JSON object; what is not known is null, and a key beside it says why."""
    key = look.key
    return {
        "name": look.name,
        "run": key.run if key else None,
        "rank": key.rank if key else None,
        "step": key.step if key else None,
        "layer": key.layer if key else None,
        "site": key.site if key else None,
        "call": key.call if key else None,
        "phase": look.phase,
        "mode": look.mode,
        "framework": look.framework,
        "implementation": look.implementation,
        "device": look.device,
        "scalars": dict(look.scalars),
        "cut": dict(look.cut),
        "stored_bytes": look.stored_bytes,
        "tensors": {name: _tensor(tensor) for name, tensor in look.tensors.items()},
        "attention": _attention(look),
        "why_no_attention": look.why_no_attention,
    }


def _tensor(tensor: TensorLook) -> dict[str, Any]:
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


def _attention(look: Look) -> dict[str, Any] | None:
    if look.attention is None:
        return None
    return {**dataclasses.asdict(look.attention), "sampled": look.attention.sampled}


def _optional(value: Any) -> dict[str, Any] | None:
    return dataclasses.asdict(value) if value is not None else None
