"""Attention that also returns its log-sum-exp, never infinite so that merges are safe."""

BASE = "lse_and_window"
REPLACE = {'float("-inf")': "-3e38"}
PLANTED = "the LSE of a query that sees no key is a finite number"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("no key", "sees nothing", "see nothing", "blind", "-inf", "finite")
