"""train() and eval() give the same logits where dropout is 0; where it is not, eval() repeats.

Catches mechanisms that train on one function and are judged on another: a learned mix that
becomes a choice in evaluation, a codec for one of the modes, dropout that no setting turns off or
that evaluation leaves on.
"""

from collections.abc import Iterator

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import (
    Comparison,
    ContractViolation,
    Finding,
    compare,
    summarize,
)
from assay.correctness.models.forward import forward, in_mode

ORDER = 11
COMPARES_CALLS = True
DEBUG = (
    "Search the model for self.training, torch.is_grad_enabled and dropout rates that do not come "
    "from the configuration; each is a branch that only one mode takes."
)

_DROPOUT = 0.5


def examine(subject: ExaminedModel) -> Finding:
    """Compare a call as in training, with a graph, with one as in evaluation, without."""
    model = subject.perturbed.model
    idx, targets = subject.tokens(2, seed=15), subject.tokens(2, seed=16)
    with in_mode(model, "train", graphs=True):
        training = forward(model, idx, targets).logits
    with in_mode(model, "eval"):
        evaluation = forward(model, idx, targets).logits
    message = "logits differ by %.2g between train and eval mode"
    same = compare(evaluation, training, subject.perturbed.new_shape_tolerance, message)
    success = "train and eval mode give the same logits"
    return summarize([same, *_repeats(subject)], success=success)


def _repeats(subject: ExaminedModel) -> Iterator[Comparison]:
    """Compare two calls in eval mode of a model with dropout.

    User code may have a path of its own for decoding, so there also two with a cache.
    """
    idx = subject.tokens(2, 6, seed=15)
    try:
        model = subject.make(8, dropout=_DROPOUT)
    except ContractViolation:
        return
    calls = {"calls": lambda: forward(model, idx).logits}
    if subject.has_user_code and subject.has_cache:
        calls["calls with a cache"] = lambda: subject.decode(model, idx, past=3)
    for name, call in calls.items():
        message = f"with dropout {_DROPOUT} two {name} in eval mode differ by %.2g"
        with in_mode(model, "eval"):
            yield compare(call(), call(), 0.0, message)
