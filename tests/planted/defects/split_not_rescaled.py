"""Long rows in splits of 512 keys, whose numerators and denominators are added up."""

BASE = "split_merge"
REPLACE = {
    "SPLIT = 100": "SPLIT = 512",
    "    lse = scores.logsumexp(dim=-1, keepdim=True)\n": """\
    scores = scores - scores.detach().amax(dim=-1, keepdim=True)
    lse = scores.logsumexp(dim=-1, keepdim=True)
""",
}
PLANTED = "above 512 keys the splits are added without being brought to one maximum"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("512", "split", "merge", "long", "rescal")
SLOW = True  # another of its kind is quick
