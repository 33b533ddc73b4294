"""With its gates at the value that does nothing, a variant is its baseline.

Catches mechanisms that stay on when they are switched off: a latent left in the baseline, a gate
that starts at one half, a path that is scaled before it is added.
"""

import torch
from torch import nn

from assay.correctness.models.awake import in_dtype, rouse
from assay.correctness.models.finding import Finding, failed, unsupported
from assay.correctness.models.gates._comparison import Comparison, difference, mode, verdict
from assay.correctness.models.model_calls import call
from assay.correctness.models.subject import Subject
from assay.models.gpt2.model import Decoder

ORDER = 6
DEBUG = (
    "Call neutral_() and take the parts out one by one until the difference is gone. A gate must "
    "be exactly 0 or 1 when it is neutral: the sigmoid of -10 is not 0."
)


def examine(subject: Subject) -> Finding:
    """Both are given the same noisy weights, in float64 where the model runs in it."""
    model = subject.spare()
    if not hasattr(model, "neutral_") or not hasattr(model, "baseline"):
        return unsupported("the model has no neutral_() and baseline()")
    if subject.variant is None and not _says(model):
        return unsupported("it has neutral_() and baseline() of the family alone, and adds to it")
    rouse(in_dtype(model, subject.awake.dtype), seed=5)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    model.neutral_()
    baseline = model.baseline()
    if baseline is None:
        return unsupported("the model says that it has no baseline")
    baseline = in_dtype(baseline, subject.awake.dtype)
    if fault := _give(model, baseline, before):
        return failed(fault)
    idx = subject.tokens(2, seed=13)
    with mode(model, "train"), mode(baseline, "train"):
        apart = difference(call(model, idx).logits, call(baseline, idx).logits)
    words = f"with neutral gates it differs from its baseline by {apart:.2g}"
    allowed = 500 * torch.finfo(subject.awake.lowest).eps  # sums in another order
    exactly = "but for rounding" if apart else "bit for bit"
    dtype = str(subject.awake.dtype).removeprefix("torch.")
    return verdict(
        [Comparison(moved=apart, allowed=allowed, words=words)],
        held=f"equal to its baseline {exactly}, in {dtype}",
    )


def _says(model: nn.Module) -> bool:
    """Whether some code of the user's says what neutral is."""
    if type(model).baseline is not Decoder.baseline:
        return True
    kinds = {type(module) for module in model.modules() if hasattr(module, "neutral_")}
    return any(not kind.neutral_.__module__.startswith("assay.") for kind in kinds)


@torch.no_grad()
def _give(model: nn.Module, baseline: nn.Module, before: dict[str, torch.Tensor]) -> str | None:
    """Weights of the same name; says what stands against it."""
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
