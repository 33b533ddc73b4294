"""Parameters and cache of a model at GPT-2 124M size, counted on the meta device."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

from assay.correctness.models.examined_model import ExaminedModel
from assay.models.gpt2.variants import model_class

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
        with _on_meta_device():
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


@contextmanager
def _on_meta_device() -> Iterator[None]:
    usual = torch.get_default_dtype()
    torch.set_default_dtype(DTYPE)
    try:
        with torch.device("meta"), _SkippedInitialization():
            yield
    finally:
        torch.set_default_dtype(usual)


class _SkippedInitialization(TorchFunctionMode):
    """Leaves out torch.nn.init: a meta tensor has no values, and drawing them takes most time."""

    def __torch_function__(self, function, types, args=(), kwargs=None):  # noqa: ANN001
        if getattr(function, "__module__", None) == init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        return function(*args, **(kwargs or {}))
