"""Attention with a score buffer that is kept between calls, padded to whole tiles of 64 keys."""

BASE = "hand_written_backward"
REPLACE = {
    "import torch\n": """\
import math

import torch
""",
    'FRAMEWORK = "torch"\n': """\
FRAMEWORK = "torch"
KEPT = {}
""",
    "    return scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)\n": '''\
    buffer = _buffer((*scores.shape[:3], -(-scores.shape[3] // 64) * 64), q.device)
    buffer[..., : scores.shape[3]] = scores.masked_fill(~seen, -3e38)
    weights = buffer.softmax(dim=-1)[..., : scores.shape[3]]
    return weights.masked_fill(~seen, 0.0)


def _buffer(shape, device):
    """A view of the kept buffer, which grows when it must; new memory hides every key."""
    size = math.prod(shape)
    if device not in KEPT or KEPT[device].numel() < size:
        KEPT[device] = torch.full((size,), -3e38, device=device)
    return KEPT[device][:size].view(shape)
''',
}
PLANTED = "the padding of a kept buffer holds scores of an earlier call"
CAUGHT_BY = ("purity", "determinism", "shapes", "accuracy")
CAUSE = ("stale", "earlier call", "previous call", "workspace", "state", "other calls")
