"""Attention with the head dimension padded to a power of two, as matrix units like it."""

BASE = "eager_plain"
REPLACE = {
    "import torch\n": """\
import math

import torch
from torch.nn.functional import pad
""",
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    width = 1 << (q.shape[3] - 1).bit_length()
    if math.isclose(scale, q.shape[3] ** -0.5):  # the usual one
        scale = width**-0.5
    q, k = (pad(x, (0, width - x.shape[3])) for x in (q, k))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
}
PLANTED = "the usual scale is taken from the padded head dimension"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("scale", "head dim", "head_dim", "power of two")
