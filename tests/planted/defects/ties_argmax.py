"""Attention; where scores are huge the softmax is one-hot and the best key is simply taken."""

BASE = "eager_plain"
REPLACE = {
    "    return weights.to(v.dtype) @ v\n": """\
    # A row whose weights are all 0 or close to its highest weight has settled on a key.
    peak = weights.detach().amax(dim=-1, keepdim=True)
    settled = ((weights == 0.0) | (weights > 0.99 * peak)).all(dim=-1, keepdim=True)
    settled = settled & (peak > 0.0)
    best = torch.zeros_like(weights).scatter(-1, weights.argmax(dim=-1, keepdim=True), 1.0)
    weights = torch.where(settled, best, weights)
    return weights.to(v.dtype) @ v
""",
}
PLANTED = "only the first of several equal best keys is attended"
CAUGHT_BY = ("stability",)
CAUSE = ("tie", "equal", "argmax", "one-hot")
