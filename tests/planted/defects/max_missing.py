"""Attention with the softmax written out."""

BASE = "exp2_softmax"
REPLACE = {"torch.exp2(scores - highest)": "torch.exp2(scores)"}
PLANTED = "the maximum is not subtracted before exp"
CAUGHT_BY = ("stability",)
CAUSE = ("max", "overflow")
