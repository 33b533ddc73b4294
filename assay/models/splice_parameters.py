"""Parameters of KVSplice codecs in a checkpoint: what training made of their scales and shifts.

A codec that no gradient reached trains without an error and leaves its scales as they were. Every
value is held against a codec that is built anew, so that no start is written down twice.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from assay.errors import BadInput
from assay.kv.layouts.mla_latent import NAMES
from assay.models.gpt2 import checkpoint

MOVED = 0.01  # from its start, by more than which a parameter counts as learnt
PRUNABLE = 0.1  # the scale below which a dimension is a candidate for pruning
LEARNING, STUCK, NOT_FINITE = "learning", "stuck", "not finite"
UNTOUCHED = "scales and shifts are bit for bit as built, the decoder is the encoder transposed"
STILL = f"no scale or shift is more than {MOVED} from its start"
STILL_MAPS = f"the decoder is within {MOVED} of the encoder transposed, as built"
DECAYED = "all scales moved alike and no shift did: weight decay without a gradient"
_TRY = {
    UNTOUCHED: "As built: the file was saved before training, or the optimizer does not have these "
    "parameters, or no gradient reaches them: see the gates splice and gradients of "
    "`assay check --models {variant}`.",
    DECAYED: "Decayed: the optimizer has the parameters and their gradients are zero, so the codec "
    "is not in the path: see the gate splice of `assay check --models {variant}`.",
    STILL: "Still: train longer, or give scale and shift a group of their own in the optimizer, "
    "with a higher learning rate and no weight decay. Where the maps moved, encoder and decoder "
    "learn in their place, for an affine transform adds nothing that these cannot learn: "
    "splice_transform=spline does, splice_transform=none leaves it out.",
    STILL_MAPS: "Still: train longer or with a higher learning rate; if it stays so, see the gates "
    "splice and gradients of `assay check --models {variant}`.",
}

_STATISTICS = {
    "mean": torch.Tensor.mean,
    "deviation": lambda values: values.std(correction=0),
    "min": torch.Tensor.min,
    "max": torch.Tensor.max,
}


def read_parameters(path: Path | str) -> list[dict[str, Any]]:
    """Return a row for each codec of a checkpoint, by layer and latent.

    Scales are what a dimension is multiplied by (of a spline, the slopes of all its pieces), not
    the numbers that are stored. `moved` is the largest distance from the start; of the maps, that
    of the decoder from the encoder's transpose. None where a transform has no such parameter.
    """
    model = checkpoint.load(path)
    rows = []
    for layer, block in enumerate(model.h):
        for latent, codec in zip(NAMES, block.attn.codecs, strict=False):
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                start = type(codec)(model.config).to(codec.encoder.weight.dtype)
                place = {"model": model.variant.name, "layer": layer, "latent": latent}
                rows.append(place | _row(codec, start, model.config.splice_transform))
    if not rows:
        raise BadInput(
            f"{path} holds {model.variant.name}, in which no layer has a codec; give a checkpoint "
            "of a variant with KV, such as GPT2_MLA_KV"
        )
    return rows


def any_learns(rows: Sequence[Mapping[str, Any]]) -> bool:
    """True where a codec learns and none holds a value that is not finite."""
    verdicts = {row["verdict"] for row in rows}
    return LEARNING in verdicts and NOT_FINITE not in verdicts


def advice(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what to try, a sentence or two for each reason that a codec is stuck."""
    reasons = dict.fromkeys(row["reason"] for row in rows if row["reason"] in _TRY)
    return " ".join(_TRY[reason].format(variant=rows[0]["model"]) for reason in reasons)


def _row(codec: nn.Module, start: nn.Module, transform: str) -> dict[str, Any]:
    untouched = _is_untouched(codec, start)
    codec, start = codec.double(), start.double()  # a softplus in half precision would round
    scales = _values(codec, start, "scale")
    shifts = _values(codec, start, "shift")
    maps = codec.decoder.weight - codec.encoder.weight.T
    row = {
        "transform": transform,
        "dimensions": codec.decoder.out_features,
        "code": codec.code_width,
        **_statistics("scale", scales),
        **_statistics("shift", shifts),
        "maps_moved": _number(maps.abs().max()),
        "prunable": [],
    }
    if scales is not None:
        largest = scales[0].amax(dim=1)  # [dimensions]
        row["prunable"] = (largest < PRUNABLE).nonzero().flatten().tolist()
    verdict, reason = _verdict(row, codec, untouched=untouched)
    return row | {"verdict": verdict, "reason": reason}


def _verdict(row: Mapping[str, Any], codec: nn.Module, *, untouched: bool) -> tuple[str, str]:
    wrong = [name for name, p in codec.named_parameters() if not p.isfinite().all()]
    if wrong:
        return NOT_FINITE, f"NaN or infinity in {', '.join(wrong)}"
    if untouched:
        return STUCK, UNTOUCHED
    if row["scale_moved"] is None:
        return (LEARNING, "") if row["maps_moved"] > MOVED else (STUCK, STILL_MAPS)
    if max(row["scale_moved"], row["shift_moved"]) <= MOVED:
        return STUCK, STILL
    if row["scale_min"] == row["scale_max"] and row["shift_moved"] == 0:
        return STUCK, DECAYED
    return LEARNING, ""


def _is_untouched(codec: nn.Module, start: nn.Module) -> bool:
    """True where all is bit for bit as built; the maps start from random numbers, of which only
    their relation is known."""
    initial = start.state_dict()
    return torch.equal(codec.decoder.weight, codec.encoder.weight.T) and all(
        torch.equal(value, initial[name])
        for name, value in codec.state_dict().items()
        if not name.startswith(("encoder.", "decoder."))
    )


def _values(
    codec: nn.Module, start: nn.Module, name: str
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Scales [dimensions, pieces] or shifts [dimensions], now and at the start; None without."""
    if not hasattr(codec.transform, "shift"):
        return None
    if name == "shift":
        return codec.transform.shift, start.transform.shift
    return codec.transform.slopes(), start.transform.slopes()


def _statistics(
    name: str, values: tuple[torch.Tensor, torch.Tensor] | None
) -> dict[str, float | None]:
    if values is None:
        return dict.fromkeys(f"{name}_{word}" for word in (*_STATISTICS, "moved"))
    now, start = values
    statistics = {f"{name}_{word}": _number(of(now)) for word, of in _STATISTICS.items()}
    return statistics | {f"{name}_moved": _number((now - start).abs().max())}


def _number(value: torch.Tensor) -> float | None:
    """The value, or None where it is none that JSON can hold."""
    return value.item() if value.isfinite() else None
