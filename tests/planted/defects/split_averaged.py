"""Long rows in splits of 256 keys, each a softmax of its own, combined at the end."""

BASE = "split_merge"
REPLACE = {
    "SPLIT = 100": "SPLIT = 256",
    """\
    shares = (lse - lse.detach().amax(dim=0)).exp()
    shares = shares / shares.sum(dim=0)
""": """\
    shares = (lse > -1e30).float()
    shares = shares / shares.sum(dim=0).clamp_min(1.0)
""",
}
PLANTED = "the outputs of the splits are averaged instead of weighted"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("256", "split", "merge", "long")
