"""`assay.capturing`: take the real attention inputs out of a model, whatever it is written in."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import BadInput
from assay.workloads.selection import Options
from assay.workloads.store import Store

if TYPE_CHECKING:
    from assay.capture.torch import TorchCapture


def capturing(
    model: Any,
    to: str | Path = "captures",
    options: Options | None = None,
    *,
    run: str | None = None,
    **choices: Any,
) -> "TorchCapture":
    """Capture attention calls of `model` into the store `to` while the `with` lasts.

    `choices` are fields of Options (every=20, layers="::4", mode="stats", ...), on top of
    `options` where both are given.

        with assay.capturing(model, "captures", every=20) as capture:
            train(model)
        print(capture.report().sentence())
    """
    chosen = _chosen(options or Options(), choices)
    framework = _framework(model)
    if framework == "torch":
        from assay.capture.torch import TorchCapture

        return TorchCapture(model, Store.create(Path(to)), chosen, run=run)
    from assay.capture.jax import capturing_flax

    return capturing_flax(model, Store.create(Path(to)), chosen, run=run)


def _chosen(options: Options, choices: dict[str, Any]) -> Options:
    try:
        return replace(options, **choices)
    except TypeError:
        known = ", ".join(sorted(Options.__dataclass_fields__))
        unknown = ", ".join(sorted(set(choices) - set(Options.__dataclass_fields__)))
        raise BadInput(f"there is no choice {unknown}; there are {known}") from None


def _framework(model: Any) -> str:
    """The framework whose module `model` is; only those that are loaded can have made it."""
    torch, flax = sys.modules.get("torch"), sys.modules.get("flax")
    if torch is not None and isinstance(model, torch.nn.Module):
        return "torch"
    if flax is not None and isinstance(model, flax.linen.Module):
        return "flax"
    raise BadInput(
        f"{type(model).__name__} is neither a torch.nn.Module nor a flax.linen.Module; give the "
        "model itself"
    )
