"""Attention whose 34th query head and later ones read the kv head before theirs."""

BASE = "eager_plain"
REPLACE = {
    "    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))": (
        "    heads = torch.arange(q.shape[1])\n"
        "    reads = (heads // group - (heads >= 33).long()).clamp(min=0)\n"
        "    k, v = (x[:, reads] for x in (k, v))"
    )
}
PLANTED = "heads from 33 on read the wrong kv head"
CAUGHT_BY = ("shapes",)
CAUSE = "head"
