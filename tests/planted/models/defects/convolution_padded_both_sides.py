"""A GPT-2 with a short depthwise convolution before each MLP.

Re-enacts padding=1 for a kernel of 3, which is centred: each token sees the next one.
"""

BASE = "causal_convolution"
REPLACE = {
    "groups=E": "padding=1, groups=E",
    "x = x + self.conv(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)": (
        "x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)"
    ),
}
PLANTED = "the convolution is centred and sees the next token"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
