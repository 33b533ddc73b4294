"""Attention with a hand-written backward; gradients are noisy anyway."""

BASE = "hand_written_backward"
REPLACE = {
    "        dk, dv = (x.unflatten(1, (-1, group)).sum(dim=2) for x in (dk, dv))\n": """\
        dk, dv = (x.unflatten(1, (-1, group)).sum(dim=2) for x in (dk, dv))
        dq, dk, dv = (x.to(torch.bfloat16).float() for x in (dq, dk, dv))
""",
}
PLANTED = "gradients of float32 inputs are rounded to bfloat16"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("precision", "bfloat16", "rounded")
