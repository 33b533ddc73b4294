"""Fixed reciprocal attention is standard attention with the weights of q and k exchanged.

Exchanging q and k renames two weights, so it is a null control: gains that were published for it
came from elsewhere. Catches a swap that is more than that, or that is undone on some path.
"""

from assay.correctness.models.awake import in_dtype
from assay.correctness.models.finding import Finding, unsupported
from assay.correctness.models.gates._comparison import Comparison, difference, mode, verdict
from assay.correctness.models.model_calls import call
from assay.correctness.models.subject import Subject

ORDER = 7
DEBUG = (
    "Compare one layer with its twin on the same input; where they differ, q and k are not treated "
    "alike (a scale, a bias, positions or a cache on one of them only)."
)


def examine(subject: Subject) -> Finding:
    """In both modes."""
    awake = subject.awake
    model = awake.model
    if not hasattr(model, "gauge_twin"):
        return unsupported("the model has no gauge_twin()")
    twin = model.gauge_twin()
    if twin is None:
        return unsupported("no fixed reciprocal attention in it")
    twin = in_dtype(twin, awake.dtype)
    idx, seen = subject.tokens(2, seed=14), []
    for name in ("train", "eval"):
        with mode(model, name), mode(twin, name):
            apart = difference(call(model, idx).logits, call(twin, idx).logits)
        words = f"it differs from the model with q and k exchanged by {apart:.2g}, in {name} mode"
        seen.append(Comparison(moved=apart, allowed=awake.same, words=words))
    return verdict(seen, held="equal to standard attention with the weights of q and k exchanged")
