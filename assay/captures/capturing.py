"""`assay.capturing`: take the real attention inputs out of a model, whatever it is written in."""

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.errors import BadInput

if TYPE_CHECKING:
    from assay.captures.jax import Capture
    from assay.captures.torch import TorchCapture


def capturing(
    model: Any,
    to: str | Path = "captures",
    options: CaptureOptions | None = None,
    *,
    run: str | None = None,
    **choices: Any,
) -> "TorchCapture | Capture":
    """Capture attention calls of `model` into the store `to` while the `with` lasts.

    `choices` are fields of CaptureOptions (every=20, layers="::4", mode="stats", ...), on top of
    `options`; for Flax models also what `assay.captures.jax.capturing_flax` takes.

        with assay.capturing(model, "captures", every=20) as capture:
            train(model)
        print(capture.report().sentence())
    """
    if _is_torch(model):
        from assay.captures.torch import TorchCapture

        chosen = _chosen(options or CaptureOptions(), choices)
        return TorchCapture(model, Store.create(Path(to)), chosen, run=run)
    if _is_flax(model):
        from assay.captures.jax import capturing_flax

        return capturing_flax(model, to, options, run=run, **choices)
    raise BadInput(
        f"{type(model).__name__} is neither a torch.nn.Module nor a flax.linen.Module; give the "
        "model itself"
    )


def _chosen(options: CaptureOptions, choices: dict[str, Any]) -> CaptureOptions:
    known = {field.name for field in fields(CaptureOptions)}
    unknown = set(choices) - known
    if unknown:
        raise BadInput(
            f"there is no choice {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(known))}"
        )
    return replace(options, **choices)


def _is_torch(model: Any) -> bool:
    """Only a framework that is loaded can have made the model."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _is_flax(model: Any) -> bool:
    linen = sys.modules.get("flax.linen")
    return linen is not None and issubclass(
        model if isinstance(model, type) else type(model), linen.Module
    )
