"""Causal attention that hides everything above the diagonal."""

BASE = "eager_plain"
REPLACE = {"seen.tril(keys - queries)": "seen.tril(keys - queries + 1)"}
PLANTED = "off by one: sees one future key"
CAUGHT_BY = ("accuracy", "causality", "shapes")
CAUSE = ("off by one", "one future", "next key", "one key too many")
