"""Values that a module puts into its weights are still there when the whole model is built.

Catches `self.apply(init)` of a model that overwrites what its parts had set on purpose: orthogonal
codecs became noise with a tenth of their gain, outputs that were to start at zero did not.
"""

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, failed, passed

ORDER = 13
DEBUG = (
    "Let the model initialise first and its parts after it, or mark the parts that initialise "
    "themselves and leave them out of apply()."
)
UNIT = "tensors overwritten"


def examine(subject: ExaminedModel) -> Finding:
    """Record the construction of a model; values may be scaled, or drawn again in the same way."""
    constructed = subject.constructed
    if constructed.unfilled:
        return failed(f"{', '.join(constructed.unfilled[:4])}: memory that nothing was put into")
    if lost := constructed.overwritten:
        names = "; ".join(f"{name}, which {owner}" for name, owner in list(lost.items())[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        return failed(f"overwritten: {names}{more}", value=len(lost), unit=UNIT)
    reason = f"what parts set in {constructed.deliberate_count} tensors is still there"
    return passed(reason, value=0.0, unit=UNIT)
