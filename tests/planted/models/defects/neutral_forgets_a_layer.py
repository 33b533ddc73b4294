"""A GPT-2 with an output gate on attention, and a way to switch all gates off.

Re-enacts a sweep over the layers that starts at the second: the first has no gate in the variant
that the line was written for.
"""

BASE = "output_gate"
REPLACE = {
    "for layer in self.layers:": "for layer in self.layers[1:]:",
}
PLANTED = "the gate of the first layer is not made neutral"
CAUGHT_BY = ("neutral",)
CAUSE = ("neutral", "baseline")
