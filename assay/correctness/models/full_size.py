"""Parameters and cache of a model at GPT-2 124M size, counted on the meta device."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from assay.correctness.models.examined_model import ExaminedModel
from assay.models.gpt2.variants import model_class
from assay.models.weightless import weightless

DTYPE = torch.bfloat16


@dataclass(frozen=True, kw_only=True)
class FullSize:
    """Sizes of a model; a number is None where it is unknown, and `reason` says why."""

    parameters: int | None = None
    cache_bytes_per_token: int | None = None  # in bfloat16
    reason: str = ""


def full_size(subject: ExaminedModel, options: Mapping[str, Any]) -> FullSize:
    """Count parameters and cache of a subject's class with these options."""
    config = type(subject.config)(**options)
    try:
        build = model_class(subject.variant) if subject.variant else type(subject.make(0))
        with weightless(DTYPE):
            model = build(config)
        parameters = int(model.get_num_params())
    except Exception as error:
        return FullSize(reason=f"cannot be built at this size: {type(error).__name__}: {error}")
    if not hasattr(model, "cache_bytes"):
        return FullSize(parameters=parameters, reason="the model has no cache_bytes(batch, tokens)")
    try:
        more = int(model.cache_bytes(1, 2)) - int(model.cache_bytes(1, 1))
    except Exception as error:
        reason = f"cache_bytes(batch, tokens) raises {type(error).__name__}: {error}"
        return FullSize(parameters=parameters, reason=reason)
    return FullSize(parameters=parameters, cache_bytes_per_token=more)
