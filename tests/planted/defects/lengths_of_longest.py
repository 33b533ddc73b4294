"""Attention over padded batches, cut to the length that the batch needs."""

BASE = "every_option"
REPLACE = {"lengths.to(q.device)[:, None, None, None]": "lengths.max()"}
PLANTED = "keys are hidden beyond the longest entry of the batch instead of each entry's own end"
CAUGHT_BY = ("options",)
CAUSE = ("length", "batch")
