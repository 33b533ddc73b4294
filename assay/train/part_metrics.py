"""Metrics of a model's parts while it trains: scales and shifts of splices, means of gates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from assay.errors import BadInput

_GATE = "c_gate"  # linear maps whose sigmoid multiplies something


def codec_metrics(model: nn.Module) -> dict[str, float]:
    """Mean and deviation of the scales and shifts of all splices, by what numbers are multiplied
    with; empty without a splice. Raises BadInput where a variant with one has none in its path."""
    codecs = [codec for block in model.h for codec in block.attn.codecs]
    if not codecs:
        if "splice" in model.variant.parts:
            raise BadInput(f"{model.variant.name} has a splice and no layer has a codec of it")
        return {}
    with torch.no_grad():
        known = [codec for codec in codecs if hasattr(codec.transform, "shift")]
        maps = [codec.decoder.weight - codec.encoder.weight.T for codec in codecs]
        metrics = {"splice_maps_moved": _largest(maps)}
        if known:
            scales = torch.cat([codec.transform.slopes().flatten().float() for codec in known])
            shifts = torch.cat([codec.transform.shift.flatten().float() for codec in known])
            for name, values in (("scale", scales), ("shift", shifts)):
                metrics[f"{name}_mean"] = float(values.mean())
                metrics[f"{name}_std"] = float(values.std(correction=0))
    return metrics


def _largest(tensors: list[torch.Tensor]) -> float:
    return max(float(tensor.abs().max()) for tensor in tensors)


@contextmanager
def gate_means(model: nn.Module) -> Iterator[Callable[[], dict[str, float]]]:
    """Watch gates in the passes within; the function gives the mean of each kind since then."""
    sums: dict[str, list[float]] = {}

    def watch(name: str) -> Callable[..., None]:
        def note(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
            sums.setdefault(name, []).append(float(output.detach().float().sigmoid().mean()))

        return note

    hooks = [
        module.register_forward_hook(watch("gate_mean"))
        for name, module in model.named_modules()
        if name.rpartition(".")[2] == _GATE
    ]
    try:
        yield lambda: {name: sum(values) / len(values) for name, values in sums.items()}
    finally:
        for hook in hooks:
            hook.remove()
