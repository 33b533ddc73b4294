"""Attention; q is scaled once, outside the graph, since it is a constant factor."""

BASE = "eager_plain"
REPLACE = {"q.float()": "q.detach().float()"}
PLANTED = "no gradient reaches q"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("dq", "gradient of q", "detach", "no gradient")
