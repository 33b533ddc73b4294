"""Attention with a hand-written backward."""

BASE = "hand_written_backward"
REPLACE = {" - delta)": ")"}
PLANTED = "the row sum of dO * O is missing from dS"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("delta", "row sum", "rowsum", "do * o")
