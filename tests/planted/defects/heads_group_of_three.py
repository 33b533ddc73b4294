"""Grouped-query attention: the heads of a group are packed, padded to a power of two."""

BASE = "eager_plain"
REPLACE = {
    "import torch\n": """\
import torch
from torch.nn.functional import pad
""",
    "    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))\n": """\
    packed = q.unflatten(1, (k.shape[1], group)).float()  # [B, G, R, M, D]
    packed = pad(packed, (0, 0, 0, 0, 0, (1 << (group - 1).bit_length()) - group))
""",
    "(q.float() @ k.float().transpose(-1, -2))": "(packed @ k[:, :, None].float().mT)",
    "    return weights.to(v.dtype) @ v\n": """\
    out = (weights @ v[:, :, None].float()).flatten(1, 2)
    return out[:, : q.shape[1]].to(q.dtype)
""",
}
PLANTED = "with 3 query heads to a kv head, a padding head is taken for a real one"
CAUGHT_BY = ("shapes", "accuracy", "metamorphic")
CAUSE = ("kv head", "head group", "query heads", "grouped", "heads", "ratio 3", "power of two")
