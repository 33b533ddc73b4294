"""Attention with a backward of its own for decoding, where there is one query."""

BASE = "hand_written_backward"
REPLACE = {
    "        dk, dv = (x.unflatten(1, (-1, group)).sum(dim=2) for x in (dk, dv))\n": """\
        if q.shape[2] == 1:  # an outer product
            grad_p = (grad * values).sum(dim=-1)
            slope = weights[:, :, 0] * (delta[:, :, 0] - grad_p)
            dk = scale * slope[..., None] * q.float()
        dk, dv = (x.unflatten(1, (-1, group)).sum(dim=2) for x in (dk, dv))
""",
}
PLANTED = "with one query dk has the wrong sign"
CAUGHT_BY = ("gradients", "shapes")
CAUSE = ("sign", "one query", "single query", "m = 1", "m=1")
SLOW = True
