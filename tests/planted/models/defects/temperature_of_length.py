"""A GPT-2 whose attention gets sharper with the logarithm of the length.

Re-enacts a quantity taken from the length of the call where that of the row was meant: the same
token gets other logits when it is decoded than when it is scored.
"""

BASE = "plain_functions"
REPLACE = {
    "import torch\n": """\
import math

import torch
""",
    "    scores = q @ k.mT / (width // heads) ** 0.5\n": """\
    sharper = 1.0 + math.log(total)
    scores = q @ k.mT * sharper / (width // heads) ** 0.5
""",
}
PLANTED = "the temperature depends on how many tokens the call has"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token")
