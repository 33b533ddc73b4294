"""Attention; the scores are shifted by their maximum, so that exp cannot overflow."""

BASE = "exp2_softmax"
REPLACE = {"amax(dim=-1, keepdim=True)": "amax(dim=(0, 1, 3), keepdim=True)"}
PLANTED = "the maximum is taken over the batch, so that a row depends on other entries"
CAUGHT_BY = ("batch", "stability", "metamorphic")
CAUSE = ("max", "underflow", "batch", "other")
