"""Attention with a sliding window."""

BASE = "lse_and_window"
REPLACE = {"distance.abs() < window": "distance.abs() <= window"}
PLANTED = "the window is one key too wide on each side"
CAUGHT_BY = ("options",)
CAUSE = ("window", "off by one")
