"""Attention whose keys are loaded once and kept for the batch."""

BASE = "eager_plain"
REPLACE = {"k.float()": "k[:1].float()"}
PLANTED = "every batch entry uses the keys of the first"
CAUGHT_BY = ("batch", "accuracy", "shapes")
CAUSE = "batch"
