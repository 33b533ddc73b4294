"""Causal attention on lengths padded to whole tiles of 64."""

BASE = "eager_plain"
REPLACE = {
    "import torch\n": """\
import torch
from torch.nn.functional import pad
""",
    """\
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
""": """\
    k, v = (pad(x, (0, 0, 0, -keys % 64)) for x in (k, v))
    rows = pad(q, (0, 0, 0, -queries % 64))
    scores = scale * (rows.float() @ k.float().transpose(-1, -2))
    seen = (torch.arange(k.shape[2], device=q.device) < keys).expand(rows.shape[2], -1)
""",
    "seen.tril(keys - queries)": "seen.tril(k.shape[2] - rows.shape[2])",
    "weights.to(v.dtype) @ v": "(weights.to(v.dtype) @ v)[:, :, :queries]",
}
PLANTED = "the diagonal is placed by the padded lengths"
CAUGHT_BY = ("shapes", "causality", "accuracy")
CAUSE = ("multiple", "padded", "padding", "align")
