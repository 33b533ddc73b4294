"""Attention whose last head has a scale that is 3 % too small, said to round to FP8."""

BASE = "eager_plain"
REPLACE = {
    'FRAMEWORK = "torch"': 'FRAMEWORK = "torch"\nFP8 = {"format": "e4m3", "scale": "token"}',
    "scores = scale * (": (
        "each = torch.ones(q.shape[1], 1, 1, device=q.device)\n"
        "    each[1:][-1:] = 0.97\n"
        "    scores = each * scale * ("
    ),
}
PLANTED = "the scale of the last of several heads is 3 % too small, and FP8 is declared"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("last head", "0.97 times the scale")
