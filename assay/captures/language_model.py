"""A causal language model that reads a text and goes on with it, while its attention is captured.

Step 0 is the whole text in one call; each step behind it is one more token, with the cache of all
before.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from assay.captures.manifest import Scalar
from assay.captures.recording.counts import RecordingReport
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.torch import TorchCapture
from assay.errors import BadInput


def capture_text(
    model: Any,
    token_ids: Sequence[int],
    store: Store,
    options: CaptureOptions,
    *,
    decode: int = 0,
    about: Mapping[str, Scalar] | None = None,
    run: str | None = None,
) -> RecordingReport:
    """Capture one reading of `token_ids` and `decode` tokens that the model adds, the likeliest
    each time. `model` is one of transformers, in evaluation mode; `about` is told in the manifest.
    """
    _check_places(model, len(token_ids) + decode)
    capture = TorchCapture(model, store, options, run=run, about=about)
    ids = torch.tensor([list(token_ids)], device=model.device)
    with capture, torch.inference_mode():
        said = model(input_ids=ids, use_cache=True)
        for _ in range(decode):
            likeliest = said.logits[:, -1:].argmax(-1)
            said = model(input_ids=likeliest, past_key_values=said.past_key_values, use_cache=True)
    return capture.report()


def _check_places(model: Any, wanted: int) -> None:
    places = getattr(model.config, "max_position_embeddings", None)
    if places is not None and wanted > places:
        raise BadInput(
            f"{wanted} tokens were asked for, prompt and decoded ones, and {type(model).__name__} "
            f"has {places} positions; ask for fewer"
        )
