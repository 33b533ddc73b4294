"""train() and eval() give the same logits where dropout is 0; where it is not, eval() repeats.

Catches mechanisms that train on one function and are judged on another: a learned mix that
becomes a choice in evaluation, a codec for one of the modes, dropout that no setting turns off or
that evaluation leaves on.
"""

from assay.models.finding import Finding
from assay.models.gates._comparison import Comparison, difference, mode, verdict
from assay.models.model_calls import call
from assay.models.subject import Subject

ORDER = 10
DEBUG = (
    "Search the model for self.training, torch.is_grad_enabled and dropout rates that do not come "
    "from the configuration; each is a branch that only one mode takes."
)

_DROPOUT = 0.5


def examine(subject: Subject) -> Finding:
    """As in training, with a graph, against as in evaluation, without."""
    awake = subject.awake
    idx, targets = subject.tokens(2, seed=15), subject.tokens(2, seed=16)
    with mode(awake.model, "train", graphs=True):
        trained = call(awake.model, idx, targets).logits
    with mode(awake.model, "eval"):
        judged = call(awake.model, idx, targets).logits
    apart = difference(judged, trained)
    words = f"logits differ by {apart:.2g} between train and eval mode"
    seen = [Comparison(moved=apart, allowed=awake.other, words=words), _repeats(subject)]
    return verdict(seen, held="train and eval mode give the same logits")


def _repeats(subject: Subject) -> Comparison:
    """Two calls in eval mode of a model with dropout."""
    idx = subject.tokens(2, seed=15)
    model = subject.make(8, dropout=_DROPOUT)
    with mode(model, "eval"):
        apart = difference(*(call(model, idx).logits for _ in range(2)))
    words = f"with dropout {_DROPOUT} two calls in eval mode differ by {apart:.2g}"
    return Comparison(moved=apart, allowed=0.0, words=words)
