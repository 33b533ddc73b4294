"""A nanoGPT with a normalization that has a backward of its own.

Re-enacts the gradient of a gain taken with what was normalised before it was normalised.
"""

BASE = "backward_by_hand"
REPLACE = {
    "return dx, (dy * unit).flatten(0, -2).sum(0)": "return dx, (dy * x).flatten(0, -2).sum(0)"
}
PLANTED = "the gradient of the gain lacks the scale"
CAUGHT_BY = ("gradients",)
CAUSE = ("HandNorm", "argument 1")
