"""Causal attention: the mask keeps one triangle of the score matrix."""

BASE = "eager_plain"
REPLACE = {"seen.tril(": "seen.triu("}
PLANTED = "the wrong triangle is kept"
CAUGHT_BY = ("accuracy", "causality", "shapes", "gradients")
CAUSE = ("triangle", "future")
