"""Attention with a hand-written backward."""

BASE = "hand_written_backward"
REPLACE = {"dq = scale * (grad_s @ keys)": "dq = grad_s @ keys"}
PLANTED = "dq lacks the scale"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = "scale"
