"""A nanoGPT whose GELU has a backward of its own.

Re-enacts a derivative that forgets the second term of the product rule: every weight gets a
gradient, training goes on, and goes worse than it could.
"""

BASE = "backward_by_hand"
REPLACE = {
    "return dy * (below + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))": (
        "return dy * below"
    ),
}
PLANTED = "the hand-written slope lacks a term"
CAUGHT_BY = ("gradients",)
CAUSE = ("HandGelu",)
