"""A GPT-2 with twelve experts, of which each token chooses one.

Re-enacts a choice among all but the last: no token will ever reach it.
"""

BASE = "twelve_experts"
REPLACE = {"top, pick = p.max(-1)": "top, pick = p[..., :-1].max(-1)"}
PLANTED = "no token can choose the last expert"
CAUGHT_BY = ("gradients",)
CAUSE = ("experts.11",)
