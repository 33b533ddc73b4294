"""A GPT-2 with an output gate on attention, sigmoid(W x + b).

Re-enacts a gate whose "zero" is a half: the variant is compared with a baseline that it does not
contain.
"""

BASE = "output_gate"
REPLACE = {
    "return y * (2 * torch.sigmoid(self.linear(x)))": "return y * torch.sigmoid(self.linear(x))",
}
PLANTED = "the neutral gate is 0.5, not 1"
CAUGHT_BY = ("neutral",)
CAUSE = ("neutral", "baseline")
