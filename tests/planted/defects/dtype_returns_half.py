"""Attention for inference: outputs are kept in half precision."""

BASE = "eager_plain"
REPLACE = {
    "    return weights.to(v.dtype) @ v\n": """\
    half = torch.float16 if q.dtype == torch.float32 else q.dtype
    return (weights.to(v.dtype) @ v).to(half)
""",
}
PLANTED = "float32 inputs give a float16 output"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("dtype", "float16")
