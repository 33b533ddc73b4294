"""Forward, backward, clipping and AdamW: losses, gradients and weights stay finite, weights move.

Catches a model that cannot be built or trained at all, among them one whose block was given more
arguments than its constructor takes.
"""

import math

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, failed, passed

ORDER = 2
DEBUG = (
    "Run one step under torch.autograd.set_detect_anomaly(True): it names the forward line whose "
    "gradient is not finite. A weight that does not move may be a copy of what the optimizer has."
)


def examine(subject: ExaminedModel) -> Finding:
    """Train for a few steps, each on a batch of its own."""
    training = subject.training
    losses = training.losses
    if not all(math.isfinite(number) for number in [*losses, *training.norms]):
        return failed(f"losses {losses} and gradient norms {training.norms}")
    if training.not_finite:
        return failed(f"not finite: {', '.join(dict.fromkeys(training.not_finite))}")
    unmoved = [name for name, moved in training.moved.items() if not moved]
    if unmoved or not training.moved:
        names = ", ".join(unmoved[:4]) or "no weight at all"
        return failed(f"after one step of AdamW these have not moved: {names}")
    reason = f"{len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}"
    return passed(reason, value=losses[-1], unit="nats")
