"""What a module puts into its weights is still there when the whole model has been made.

Catches `self.apply(init)` of a model that runs over what its parts had set on purpose: orthogonal
codecs became noise with a tenth of their gain, outputs that were to start at zero did not.
"""

from assay.correctness.models.finding import Finding, failed, passed
from assay.correctness.models.subject import Subject

ORDER = 12
DEBUG = (
    "Let the model initialise first and its parts after it, or mark the parts that initialise "
    "themselves and leave them out of apply()."
)
UNIT = "tensors overwritten"


def examine(subject: Subject) -> Finding:
    """Watch a model being made; values may be scaled, or drawn again in the same way."""
    made = subject.made
    if made.unfilled:
        return failed(f"{', '.join(made.unfilled[:4])}: memory that nothing was put into")
    if lost := made.overwritten:
        told = "; ".join(f"{name}, which {words}" for name, words in list(lost.items())[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        return failed(f"overwritten: {told}{more}", value=len(lost), unit=UNIT)
    return passed(
        f"what parts set in {made.deliberate} tensors is still there",
        value=0.0,
        unit=UNIT,
    )
