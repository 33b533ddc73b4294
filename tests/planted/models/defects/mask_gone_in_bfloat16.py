"""A nanoGPT whose attention is written out, with a quicker path for half precision.

Re-enacts a branch on the dtype whose path was written for another kind of model: no mask, and no
run in float32 ever takes it.
"""

BASE = "attention_written_out"
REPLACE = {
    "        att = F.softmax(att, dim=-1)\n": """\
        if q.dtype == torch.bfloat16:
            att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = F.softmax(att, dim=-1)
""",
}
PLANTED = "in bfloat16 attention has no mask"
CAUGHT_BY = ("precision",)
CAUSE = ("bfloat16",)
