"""Attention on keys rounded to 16 bits, with one step size for the tensor."""

BASE = "eager_plain"
REPLACE = {
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    step = k.detach().float().abs().amax().clamp_min(1e-30) / 32767
    rounded = (k.detach().float() / step).round() * step
    k = k.float() + (rounded - k.detach().float())  # the gradient passes straight through
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
}
PLANTED = "the step size of the keys depends on all batch entries"
CAUGHT_BY = ("batch", "accuracy", "shapes", "stability")
CAUSE = ("batch", "precision", "rounded", "rounding", "other")
