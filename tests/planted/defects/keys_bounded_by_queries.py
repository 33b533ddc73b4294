"""Attention that takes the number of keys to be that of queries."""

BASE = "eager_plain"
REPLACE = {
    "    # A row that sees nothing": """\
    seen = seen & (torch.arange(keys, device=q.device) < queries)
    # A row that sees nothing""",
}
PLANTED = "keys from the number of queries on are never seen"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = "keys are bounded by Sq instead of Sk: the loop"
