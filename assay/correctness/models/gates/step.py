"""Forward, backward, clipping and AdamW: losses, gradients and weights stay finite, weights move.

Catches a model that cannot be built or trained at all, among them one whose block was given more
arguments than its constructor takes.
"""

import math

from assay.correctness.models.finding import Finding, failed, passed
from assay.correctness.models.subject import Subject

ORDER = 2
DEBUG = (
    "Run one step under torch.autograd.set_detect_anomaly(True): it names the forward line whose "
    "gradient is not finite. A weight that does not move may be a copy of what the optimizer has."
)


def examine(subject: Subject) -> Finding:
    """A few steps, each on a batch of its own."""
    training = subject.training
    numbers = [*training.losses, *training.norms]
    if not all(math.isfinite(number) for number in numbers):
        return failed(f"losses {training.losses} and gradient norms {training.norms}")
    if training.unfit:
        return failed(f"not finite: {', '.join(dict.fromkeys(training.unfit))}")
    still = [name for name, moved in training.moved.items() if not moved]
    if still or not training.moved:
        names = ", ".join(still[:4]) or "no weight at all"
        return failed(f"after one step of AdamW these have not moved: {names}")
    return passed(
        f"{len(training.losses)} steps, loss {training.losses[0]:.3f} to {training.losses[-1]:.3f}",
        value=training.losses[-1],
        unit="nats",
    )
