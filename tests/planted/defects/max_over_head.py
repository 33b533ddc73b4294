"""Attention; one maximum for the whole score matrix saves a reduction."""

BASE = "exp2_softmax"
REPLACE = {"amax(dim=-1, keepdim=True)": "amax(dim=(-2, -1), keepdim=True)"}
PLANTED = "the maximum is taken over all rows of a head, so that other rows underflow to 0/0"
CAUGHT_BY = ("stability", "metamorphic")
CAUSE = ("max", "underflow", "other rows")
