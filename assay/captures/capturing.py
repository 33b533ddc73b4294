"""`assay.capturing`: record the real attention inputs of a model, whatever it is written in.

`capture_text` does so while a language model reads a text and goes on with it.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.captures.manifest import RunSummary, Scalar
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.switched_off import NoFlaxCapture, NoTorchCapture, switched_on
from assay.errors import BadInput

if TYPE_CHECKING:
    from assay.captures.jax import FlaxCapture
    from assay.captures.torch import TorchCapture

_FLAX_CHOICES = ("phase", "scale", "attention")


def capturing(
    model: Any,
    to: str | Path = "captures",
    options: CaptureOptions | None = None,
    *,
    run: str | None = None,
    enabled: bool = True,
    **choices: Any,
) -> "TorchCapture | FlaxCapture | NoTorchCapture":
    """Capture attention calls of `model` into the store `to` while the `with` lasts.

    `choices` are fields of CaptureOptions (every=20, layers="::4", mode="stats", ...), on top of
    `options`; for Flax models also phase, scale and attention, as FlaxCapture takes them. With
    `enabled=False`, or ASSAY_CAPTURE=0 in the environment, the model runs as if this were not here.

        with assay.capturing(model, "captures", every=20) as capture:
            train(model)
        print(capture.report().sentence())
    """
    is_flax = _is_flax(model)
    if not is_flax and not _is_torch(model):
        raise BadInput(
            f"{type(model).__name__} is neither a torch.nn.Module nor a flax.linen.Module; give "
            "the model itself"
        )
    of_flax = {name: choices.pop(name) for name in _FLAX_CHOICES if is_flax and name in choices}
    known = [field.name for field in fields(CaptureOptions) if field.init]
    if unknown := sorted(set(choices) - set(known)):
        known += _FLAX_CHOICES if is_flax else ()
        raise BadInput(f"there is no choice {', '.join(unknown)}; there are {', '.join(known)}")
    options = replace(options or CaptureOptions(), **choices)
    if not (switched_on() and enabled):
        return NoFlaxCapture() if is_flax else NoTorchCapture()
    store = Store.create(Path(to))
    if is_flax:
        from assay.captures.jax import FlaxCapture

        return FlaxCapture(model, store, options, run=run, **of_flax)
    from assay.captures.torch import TorchCapture

    return TorchCapture(model, store, options, run=run)


def _is_torch(model: Any) -> bool:
    """True for a torch module; only a framework that is loaded can have made the model."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _is_flax(model: Any) -> bool:
    """True for a Flax module, or a class of them."""
    linen = sys.modules.get("flax.linen")
    kind = model if isinstance(model, type) else type(model)
    return linen is not None and issubclass(kind, linen.Module)


def capture_text(
    model: Any,
    token_ids: Sequence[int],
    store: Store,
    options: CaptureOptions,
    *,
    decode: int = 0,
    about: Mapping[str, Scalar] | None = None,
    run: str | None = None,
) -> RunSummary:
    """Capture one reading of `token_ids` and `decode` tokens that the model adds, the likeliest
    each time. `model` is one of transformers, in evaluation mode; `about` goes into the manifest.

    Step 0 is the whole text in one call; each step after it is one more token, with the cache.
    """
    import torch

    from assay.captures.torch import TorchCapture

    _check_positions(model, len(token_ids) + decode)
    capture = TorchCapture(model, store, options, run=run, about=about)
    ids = torch.tensor([list(token_ids)], device=model.device)
    with capture, torch.inference_mode():
        output = model(input_ids=ids, use_cache=True)
        for _ in range(decode):
            ids = output.logits[:, -1:].argmax(-1)
            output = model(input_ids=ids, past_key_values=output.past_key_values, use_cache=True)
    return capture.report()


def _check_positions(model: Any, wanted: int) -> None:
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is not None and wanted > positions:
        raise BadInput(
            f"{wanted} tokens were asked for, prompt and decoded ones, and {type(model).__name__} "
            f"has {positions} positions; ask for fewer"
        )
