"""Causal attention where a query looks at the keys before it."""

BASE = "eager_plain"
REPLACE = {"seen.tril(keys - queries)": "seen.tril(keys - queries - 1)"}
PLANTED = "a query does not see its own position"
CAUGHT_BY = ("accuracy", "causality", "shapes")
CAUSE = ("own position", "own key", "off by one", "strict")
