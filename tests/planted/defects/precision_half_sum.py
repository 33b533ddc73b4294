"""Attention in the dtype of its inputs; the softmax sum goes through a row key by key."""

BASE = "exp2_softmax"
REPLACE = {
    "    total = weights.sum(dim=-1, keepdim=True)\n": """\
    total = torch.zeros_like(q[..., :1])
    for weight in weights.to(q.dtype).split(1, dim=-1):
        total = total + weight
""",
}
PLANTED = "the softmax sum is accumulated in half precision"
CAUGHT_BY = ("accuracy", "shapes", "stability")
CAUSE = ("precision", "accumulat", "rounding", "rounded", "half", "sum")
