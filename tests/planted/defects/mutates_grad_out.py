"""Attention with a backward that divides the incoming gradient by the softmax sum first."""

BASE = "hand_written_backward"
REPLACE = {
    "        weights, grad = _weights(q, keys, causal, scale), grad.float()\n": """\
        weights = _weights(q, keys, causal, scale)
        inverse = weights.amax(dim=-1, keepdim=True)  # 1 / sum of exp(score - maximum)
        inverse = inverse.masked_fill(inverse == 0.0, 1.0)
        weights, grad = weights / inverse, grad.float().contiguous().mul_(inverse)
""",
}
PLANTED = "grad_out is divided in place"
CAUGHT_BY = ("purity", "gradients")
CAUSE = ("grad_out", "modif", "in place", "in-place", "changed", "changes its input", "overwrit")
