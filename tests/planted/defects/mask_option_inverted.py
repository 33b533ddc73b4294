"""Attention with a boolean mask, in the convention of torch's padding masks."""

BASE = "every_option"
REPLACE = {"seen & mask": "seen & ~mask"}
PLANTED = "True in the mask hides a key instead of showing it"
CAUGHT_BY = ("options",)
CAUSE = ("invert", "mask", "opposite")
