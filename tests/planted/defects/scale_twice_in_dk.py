"""Attention with a hand-written backward that keeps the scaled q."""

BASE = "hand_written_backward"
REPLACE = {
    "ctx.save_for_backward(q,": "ctx.save_for_backward(q.float() * scale,",
    "keys, causal, scale), grad": "keys, causal, 1.0), grad",
    "dq.to(q.dtype)": "dq.to(k.dtype)",
}
PLANTED = "dk is scaled twice: the saved q was scaled already"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = "scale"
