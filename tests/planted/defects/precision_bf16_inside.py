"""Attention with its products in bfloat16, the way autocast does it."""

BASE = "eager_plain"
REPLACE = {
    "    scores = scale * (q.float() @ k.float().transpose(-1, -2))\n": """\
    dtype = q.dtype
    if q.dtype == torch.float32:
        q, k, v = (x.to(torch.bfloat16) for x in (q, k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
""",
    "weights.to(v.dtype) @ v": "(weights.to(v.dtype) @ v).to(dtype)",
}
PLANTED = "float32 inputs are computed in bfloat16"
CAUGHT_BY = ("accuracy", "shapes", "gradients")
CAUSE = ("bfloat16", "precision", "accumulat", "rounding", "rounded")
