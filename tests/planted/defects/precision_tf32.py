"""Attention with its products as tensor cores take them."""

BASE = "eager_plain"
REPLACE = {
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    if q.dtype == torch.float32:
        q, k, v = (_tf32(x) for x in (q, k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
    "def attention(": '''def _tf32(x):
    """The nearest TF32 number; its gradient passes straight through."""
    bits = x.detach().contiguous().view(torch.int32)
    nearest = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return x + (nearest - x.detach())


def attention(''',
}
PLANTED = "float32 inputs are rounded to 10 bits of mantissa, as TF32 does"
CAUGHT_BY = ("accuracy", "shapes", "gradients")
CAUSE = ("tf32", "10 bit", "10-bit", "precision", "accumulat", "rounding", "rounded")
