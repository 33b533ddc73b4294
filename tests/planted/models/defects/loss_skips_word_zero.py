"""A nanoGPT that leaves padding, word 0, out of its loss."""

BASE = "attention_written_out"
REPLACE = {
    "        if cache is None:\n": """\
        if targets is not None:
            t = targets.reshape(-1)
            keep = t > 0
            loss = F.cross_entropy(logits.reshape(-1, logits.size(-1))[keep], t[keep])
        if cache is None:
""",
}
PLANTED = "targets of 0 are not counted"
CAUGHT_BY = ("logits",)
CAUSE = ("loss",)
