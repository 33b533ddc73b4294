"""A nanoGPT in which one transpose was lost in a clean-up.

Re-enacts [B, H, T, d] read as [B, T, C]: shapes fit, and time is mixed with heads.
"""

BASE = "nanogpt"
REPLACE = {
    "y = y.transpose(1, 2).reshape(B, T, C)": "y = y.reshape(B, T, C)",
}
PLANTED = "the heads are merged without going back to [B, T, H, d]"
CAUGHT_BY = ("causality", "cached")
CAUSE = ("position", "future", "later", "earlier", "before", "cache")
