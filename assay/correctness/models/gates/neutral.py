"""With its gates at the value that does nothing, a variant is its baseline.

Catches mechanisms that stay on when they are switched off: a latent left in the baseline, a gate
that starts at one half, a path that is scaled before it is added.
"""

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, compare, failed, summarize, unsupported
from assay.correctness.models.forward import forward, in_mode
from assay.correctness.models.perturbation import dtype_name, perturb, to_dtype
from assay.models.gpt2.model import Decoder

ORDER = 7
COMPARES_CALLS = True
DEBUG = (
    "Call neutral_() and take the parts out one by one until the difference is gone. A gate must "
    "be exactly 0 or 1 when it is neutral: the sigmoid of -10 is not 0."
)
_ROUNDINGS = 500  # of the least precise dtype, for sums in another order


def examine(subject: ExaminedModel) -> Finding:
    """Compare both with the same noisy weights, in float64 where the model runs in it."""
    model = subject.scratch()
    if not hasattr(model, "neutral_") or not hasattr(model, "baseline"):
        return unsupported("the model has no neutral_() and baseline()")
    if subject.variant is None and not _defines_neutral(model):
        return unsupported("neutral_() and baseline() of the family do not know what it adds")
    perturbed = subject.perturbed
    perturb(to_dtype(model, perturbed.dtype), seed=5)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    model.neutral_()
    baseline = model.baseline()
    if baseline is None:
        return unsupported("baseline() returns None")
    baseline = to_dtype(baseline, perturbed.dtype)
    if fault := _copy_weights(model, baseline, before):
        return failed(fault)
    idx = subject.tokens(2, seed=13)
    with in_mode(model, "train"), in_mode(baseline, "train"):
        actual, expected = forward(model, idx).logits, forward(baseline, idx).logits
    tolerance = _ROUNDINGS * torch.finfo(perturbed.lowest_dtype).eps
    message = "with neutral gates it differs from its baseline by %.2g"
    comparison = compare(actual, expected, tolerance, message)
    exactly = "but for rounding" if comparison.difference else "bit for bit"
    success = f"equal to its baseline {exactly}, in {dtype_name(perturbed.dtype)}"
    return summarize([comparison], success=success)


def _defines_neutral(model: nn.Module) -> bool:
    """Return True where code of the user's defines what neutral is."""
    if type(model).baseline is not Decoder.baseline:
        return True
    classes = {type(module) for module in model.modules() if hasattr(module, "neutral_")}
    return any(not cls.neutral_.__module__.startswith("assay.") for cls in classes)


@torch.no_grad()
def _copy_weights(
    model: nn.Module, baseline: nn.Module, before: dict[str, torch.Tensor]
) -> str | None:
    """Copy weights by name into the baseline; returns the fault that prevents it, if any."""
    weights = dict(model.named_parameters())
    for name, weight in baseline.named_parameters():
        if name not in weights:
            return f"its baseline has a weight {name} that it has not"
        if weights[name].shape != weight.shape:
            shapes = f"{list(weights[name].shape)} and {list(weight.shape)}"
            return f"{name} has shapes {shapes} in the model and in its baseline"
        if not torch.equal(weights[name], before[name]):
            return f"neutral_() changes {name}, which its baseline has too"
        weight.copy_(weights[name])
    buffers = dict(model.named_buffers())
    for name, buffer in baseline.named_buffers():
        if name in buffers and buffers[name].shape == buffer.shape:
            buffer.copy_(buffers[name])
    return None
