"""A GPT-2 with an output gate on attention that is neutral but for a billionth."""

BASE = "output_gate"
REPLACE = {
    """\
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
""": """\
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, 1e-9)
""",
}
PLANTED = "the neutral gate is almost 1"
CAUGHT_BY = ("neutral",)
CAUSE = ("baseline",)
