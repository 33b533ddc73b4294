"""Attention on keys padded to whole tiles of 64; zeros add nothing to the output."""

BASE = "eager_plain"
REPLACE = {
    "import torch\n": """\
import torch
from torch.nn.functional import pad
""",
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    k, v = (pad(x, (0, 0, 0, -keys % 64)) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
    "torch.ones(queries, keys, dtype": "torch.ones(queries, k.shape[2], dtype",
}
PLANTED = "padding keys are counted in the softmax where nothing is causal"
CAUGHT_BY = ("shapes", "accuracy", "gradients")
CAUSE = ("padding", "padded", "partial", "tail", "multiple", "tile")
