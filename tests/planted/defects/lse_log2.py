"""Attention that also returns its log-sum-exp, computed with powers of two like the softmax."""

BASE = "lse_and_window"
REPLACE = {
    "import torch\n": """\
import math

import torch
""",
    ".logsumexp(dim=-1)": ".logsumexp(dim=-1) / math.log(2.0)",
}
PLANTED = "the LSE is in units of log2"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("log2", "base 2", "natural", "ln 2", "ln(2)", "0.693", "1.44")
