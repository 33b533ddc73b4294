"""Attention whose backward adds tiles of queries to dk and dv as they finish."""

BASE = "shuffled_backward"
REPLACE = {"DETERMINISTIC_BACKWARD = False\n": ""}
PLANTED = "dk and dv are added up in a random order, and the file does not say so"
CAUGHT_BY = ("determinism",)
CAUSE = ("undeclared",)
