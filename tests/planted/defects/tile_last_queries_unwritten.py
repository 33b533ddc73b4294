"""Attention for 64 queries at a time, written into one output buffer."""

BASE = "empty_buffers"
REPLACE = {"range(0, q.shape[2], 64)": "range(0, max(q.shape[2] // 64, 1) * 64, 64)"}
PLANTED = "the last partial tile of queries is never written"
CAUGHT_BY = ("unwritten", "shapes", "accuracy")
CAUSE = (
    "unwritten",
    "never written",
    "not written",
    "uninitialised",
    "last quer",
    "partial",
    "tail",
    "multiple",
)
