"""Attention that addresses q by its strides; batch entries follow each other."""

BASE = "hand_written_backward"
REPLACE = {
    "        group = q.shape[1] // k.shape[1]\n": """\
        q = torch.as_strided(q, q.shape, (q[0].numel(), *q.stride()[1:]))
        group = q.shape[1] // k.shape[1]
""",
}
PLANTED = "the batch stride of q is assumed instead of read"
CAUGHT_BY = ("strides",)
CAUSE = ("batch", "stride", "contiguous")
