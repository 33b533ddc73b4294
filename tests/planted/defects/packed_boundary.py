"""Attention over packed sequences: a token's sequence is found by bisection."""

BASE = "every_option"
REPLACE = {
    "row, right=True)": "row)",
    "column, right=True)": "column)",
}
PLANTED = "the first token of a sequence is taken for the last of the one before"
CAUGHT_BY = ("options",)
CAUSE = ("boundar", "cu_seqlens", "packed", "sequence")
