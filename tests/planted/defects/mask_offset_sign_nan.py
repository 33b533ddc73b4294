"""Causal attention over a cache; hidden scores are -inf."""

BASE = "eager_plain"
REPLACE = {
    "seen.tril(keys - queries)": "seen.tril(queries - keys)",
    "masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)": (
        'masked_fill(~seen, float("-inf")).softmax(dim=-1)'
    ),
}
PLANTED = "the diagonal is shifted by queries - keys; rows that see nothing become NaN"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = "the sign of the offset is wrong"
SLOW = True  # another of its kind is quick
