"""Attention that takes keys in pairs, even ones first."""

BASE = "eager_plain"
REPLACE = {
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    even = torch.arange(0, keys, 2, device=q.device)
    order = torch.cat((even, even + 1))
    k, v = k[:, :, order], v[:, :, order]
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
    "seen.tril(keys - queries)": "seen.tril(keys - queries)[:, order]",
}
PLANTED = "an odd number of keys raises an IndexError"
CAUGHT_BY = ("shapes",)
CAUSE = ("indexerror", "raise", "odd", "out of bounds", "out of range")
