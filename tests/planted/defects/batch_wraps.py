"""Attention over a batch, with the entry's number in two bits."""

BASE = "eager_plain"
REPLACE = {
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    entry = torch.arange(q.shape[0], device=q.device) & 3
    k, v = k[entry], v[entry]
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
}
PLANTED = "batch entries from the fifth on use keys and values of entry 0"
CAUGHT_BY = ("batch", "shapes")
CAUSE = "batch"
