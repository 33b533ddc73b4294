"""Causal attention; with a cache there is nothing left to hide."""

BASE = "eager_plain"
REPLACE = {"if causal:": "if causal and queries == keys:"}
PLANTED = "causal is applied only where M equals N"
CAUGHT_BY = ("shapes", "causality", "accuracy")
CAUSE = (
    "m != n",
    "m equals n",
    "square",
    "unequal",
    "not applied",
    "no mask",
    "not causal",
    "ignore",
)
SLOW = True
