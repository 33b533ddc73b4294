"""A destroyed codec moves the loss: in training without a cache, in evaluation and in decoding.

Catches a compression that is applied only when there is a cache. Training and all evaluation ran
without one, so results were published of a codec that nothing had passed through.
"""

from contextlib import ExitStack

import torch

from assay.correctness.models.codecs import Codec, codecs, destroyed, watched
from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import (
    Finding,
    failed,
    passed,
    relative_difference,
    unsupported,
)
from assay.correctness.models.forward import forward, in_mode

ORDER = 9
DEBUG = (
    "Set a breakpoint in the codec and train one step without a cache: it must be reached, and "
    "what it returns must be what attention reads. Encode and decode on every path, cache or not."
)
UNIT = "of the largest loss or logit, least moved"
TRAINING, EVALUATION = "in training without a cache", "in evaluation without a cache"
DECODING = "in cached decode"


def examine(subject: ExaminedModel) -> Finding:
    """Destroy codecs, with zeros for weights and outputs, on every path.

    In training each is destroyed alone; on the other paths all of one kind at once. Parts of what
    is only named for a codec are looked at in user code.
    """
    all_codecs = [
        codec
        for codec in codecs(subject.decoder.model)
        if subject.has_user_code or not codec.is_part
    ]
    if not all_codecs:
        return unsupported("no codec: no module is named for one or has compress and expand")
    each = {f"{codec.path} ({type(codec.module).__name__})": [codec] for codec in all_codecs}
    by_kind: dict[str, list[Codec]] = {}
    for codec in all_codecs:
        by_kind.setdefault(f"of class {codec.kind}", []).append(codec)
    paths = {TRAINING: each, EVALUATION: by_kind}
    if subject.has_cache:
        paths[DECODING] = by_kind
    with ExitStack() as stack:
        for codec in all_codecs:
            stack.enter_context(watched(codec))
        intact = {path: _run(subject, path) for path in paths}
    moved = {
        f"{name} {path}": relative_difference(_run_without(group, subject, path), intact[path])
        for path, groups in paths.items()
        for name, group in groups.items()
    }
    where = min(moved, key=moved.get)
    least = moved[where]
    if least <= subject.decoder.new_shape_tolerance:
        return failed(
            f"nothing moves (by {least:.2g}) when the codec {where} is destroyed: it is bypassed",
            value=least,
            unit=UNIT,
        )
    reason = f"all {len(all_codecs)} codecs are in use: {', '.join(paths)}"
    return passed(reason, value=least, unit=UNIT)


def _run_without(group: list[Codec], subject: ExaminedModel, path: str) -> torch.Tensor:
    with ExitStack() as stack:
        for codec in group:
            stack.enter_context(destroyed(codec))
        return _run(subject, path)


def _run(subject: ExaminedModel, path: str) -> torch.Tensor:
    """The loss, or the logits of two tokens decoded behind others."""
    model, idx = subject.decoder.model, subject.tokens(2, seed=17)
    with in_mode(model, "train" if path == TRAINING else "eval"):
        if path == DECODING:
            return subject.decode(model, idx[:, :8], past=6)
        return forward(model, idx, subject.tokens(2, seed=18)).loss
