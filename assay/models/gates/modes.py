"""train() and eval() give the same logits where dropout is 0.

Catches mechanisms that train on one function and are judged on another: a learned mix that
becomes a choice in evaluation, a codec for one of the modes, dropout that no setting turns off.
"""

from collections.abc import Iterator

from assay.models.finding import Finding
from assay.models.gates._comparison import Comparison, difference, mode, verdict
from assay.models.model_calls import call
from assay.models.subject import Subject

ORDER = 10
DEBUG = (
    "Search the model for self.training, torch.is_grad_enabled and dropout rates that do not come "
    "from the configuration; each is a branch that only one mode takes."
)


def examine(subject: Subject) -> Finding:
    """At two lengths, with targets and without, one sequence and two."""
    return verdict(_compare(subject), held="train and eval mode give the same logits")


def _compare(subject: Subject) -> Iterator[Comparison]:
    awake = subject.awake()
    for length, batch in ((subject.length, 2), (7, 1)):
        idx = subject.tokens(batch, length, seed=15)
        targets = subject.tokens(batch, length, seed=16) if batch == 1 else None
        with mode(awake.model, "train"):
            trained = call(awake.model, idx, targets).logits
        with mode(awake.model, "eval"):
            judged = call(awake.model, idx, targets).logits
        apart = difference(judged, trained)
        yield Comparison(
            moved=apart,
            allowed=awake.other,
            words=f"logits of {batch} x {length} tokens differ by {apart:.2g} between the modes",
        )
