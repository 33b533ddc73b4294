"""Attention that addresses v by its strides, from the start of its memory."""

BASE = "hand_written_backward"
REPLACE = {
    "        group = q.shape[1] // k.shape[1]\n": """\
        v = torch.as_strided(v, v.shape, v.stride(), storage_offset=0)
        group = q.shape[1] // k.shape[1]
""",
}
PLANTED = "the storage offset of v is ignored"
CAUGHT_BY = ("strides",)
CAUSE = ("offset", "stride", "contiguous")
