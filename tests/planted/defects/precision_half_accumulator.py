"""Attention that adds the values of two keys at a time to its output, in place."""

BASE = "hand_written_backward"
REPLACE = {
    "        out = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)\n": """\
        out, values = torch.zeros_like(q), v.repeat_interleave(group, dim=1).float()
        for start in range(0, k.shape[2], 2):
            pair = slice(start, start + 2)
            out += (weights[..., pair] @ values[:, :, pair]).to(q.dtype)
""",
}
PLANTED = "the output is accumulated in half precision"
CAUGHT_BY = ("accuracy", "shapes", "stability")
CAUSE = ("precision", "accumulat", "rounding", "rounded", "half")
