"""Attention on the keys as they lie in memory, [batch, heads, keys, dim]."""

BASE = "hand_written_backward"
REPLACE = {
    "        group = q.shape[1] // k.shape[1]\n": """\
        heads, keys, dim = k.shape[1:]
        k = torch.as_strided(k, k.shape, (heads * keys * dim, keys * dim, dim, 1))
        group = q.shape[1] // k.shape[1]
""",
}
PLANTED = "the strides of k are ignored"
CAUGHT_BY = ("strides",)
CAUSE = ("stride", "contiguous")
