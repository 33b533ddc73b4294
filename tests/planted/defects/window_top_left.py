"""Attention with a sliding window around each query's index."""

BASE = "lse_and_window"
REPLACE = {
    "    if window is not None:\n": """\
    if window is not None:
        distance = distance - keys + queries
""",
}
PLANTED = "the window is aligned top-left"
CAUGHT_BY = ("options",)
CAUSE = ("window", "top-left", "align")
