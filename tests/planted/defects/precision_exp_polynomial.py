"""Attention with exp by a cubic polynomial, to spare the special function units."""

BASE = "exp2_softmax"
REPLACE = {
    "torch.exp2(scores": "_exp2(scores",
    "def attention(": '''def _exp2(x):
    """2**x: a power of two from the integer part, a cubic in the rest."""
    x = x.clamp_min(-150.0)
    whole = x.floor()
    rest = x - whole
    cubic = 1.0 + rest * (0.6957 + rest * (0.2262 + rest * 0.0781))
    return cubic * torch.exp2(whole)


def attention(''',
}
PLANTED = "exp is a polynomial of too low a degree for float32"
CAUGHT_BY = ("accuracy", "shapes", "gradients")
CAUSE = ("exp", "precision", "accumulat", "rounding", "rounded")
