"""Attention with a hand-written backward that keeps each row's maximum."""

BASE = "hand_written_backward"
REPLACE = {
    "        dv = weights.transpose(-1, -2) @ grad\n": """\
        peak = weights.amax(dim=-1, keepdim=True)
        dv = (weights / peak.masked_fill(peak == 0.0, 1.0)).transpose(-1, -2) @ grad
""",
}
PLANTED = "dv uses weights that were not divided by their sum"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("normalis", "dv")
