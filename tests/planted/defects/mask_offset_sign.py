"""Causal attention over a cache; hidden scores are a large negative number."""

BASE = "eager_plain"
REPLACE = {
    "seen.tril(keys - queries)": "seen.tril(queries - keys)",
    "softmax(dim=-1).masked_fill(~seen, 0.0)": "softmax(dim=-1)",
}
PLANTED = "the diagonal is shifted by queries - keys; rows that see nothing become the mean"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = "the sign of the offset is wrong"
