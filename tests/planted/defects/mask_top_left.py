"""Causal attention with torch.tril, as every tutorial has it."""

BASE = "eager_plain"
REPLACE = {"seen.tril(keys - queries)": "seen.tril()"}
PLANTED = "mask aligned top-left"
CAUGHT_BY = ("accuracy", "causality", "shapes")
CAUSE = "the causal mask is aligned top-left"
