"""Attention with the softmax in float32."""

BASE = "eager_plain"
REPLACE = {"(q.float() @ k.float().transpose(-1, -2))": "(q @ k.transpose(-1, -2)).float()"}
PLANTED = "products of q and k overflow in float16 before they are scaled"
CAUGHT_BY = ("stability",)
CAUSE = ("overflow", "float16", "inf")
