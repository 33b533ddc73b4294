"""A GPT-2 with a loss for training beside forward, a sequence at a time.

Re-enacts a fused loss whose value is right and whose gradient is half of it.
"""

BASE = "loss_beside_forward"
REPLACE = {
    "            logits, _ = self(row[None])\n": """\
            logits, _ = self(row[None])
            logits = logits * 0.5 + logits.detach() * 0.5
""",
}
PLANTED = "half of the gradient of loss() is cut off"
CAUGHT_BY = ("logits",)
CAUSE = ("the gradient of loss(idx, targets)",)
