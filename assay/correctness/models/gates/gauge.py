"""Fixed reciprocal attention is standard attention with the weights of q and k exchanged.

Exchanging q and k renames two weights, so it is a null control: gains that were published for it
came from elsewhere. Catches a swap that is more than that, or that is undone on some path.
"""

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, compare, summarize, unsupported
from assay.correctness.models.forward import forward, in_mode
from assay.correctness.models.perturbation import to_dtype

ORDER = 8
COMPARES_CALLS = True
DEBUG = (
    "Compare one layer with its twin on the same input; where they differ, q and k are not treated "
    "alike (a scale, a bias, positions or a cache on one of them only)."
)


def examine(subject: ExaminedModel) -> Finding:
    """Compare a model with its gauge_twin() in both modes."""
    perturbed = subject.perturbed
    model = perturbed.model
    if not hasattr(model, "gauge_twin"):
        return unsupported("the model has no gauge_twin()")
    twin = model.gauge_twin()
    if twin is None:
        return unsupported("no fixed reciprocal attention")
    twin = to_dtype(twin, perturbed.dtype)
    idx, comparisons = subject.tokens(2, seed=14), []
    for mode in ("train", "eval"):
        message = f"it differs from the model with q and k exchanged by %.2g, in {mode} mode"
        with in_mode(model, mode), in_mode(twin, mode):
            actual, expected = forward(model, idx).logits, forward(twin, idx).logits
        comparisons.append(compare(actual, expected, perturbed.same_shape_tolerance, message))
    success = "equal to standard attention with the weights of q and k exchanged"
    return summarize(comparisons, success=success)
