"""Attention whose mask is made by a function of its own."""

BASE = "eager_plain"
REPLACE = {
    """\
    if causal:
        seen = seen.tril(keys - queries)
""": "",
}
PLANTED = "the causal flag never reaches the mask"
CAUGHT_BY = ("accuracy", "causality", "shapes")
CAUSE = ("causal flag", "not causal", "no mask", "ignore", "not applied")
