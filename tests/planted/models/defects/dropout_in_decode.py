"""A nanoGPT with dropout on values that come behind others."""

BASE = "attention_written_out"
REPLACE = {
    "        if past is not None:\n": """\
        if past is not None:
            v = F.dropout(v, self.dropout, training=True)
        if past is not None:
""",
}
PLANTED = "dropout in evaluation, on the path with a cache alone"
CAUGHT_BY = ("modes",)
CAUSE = ("cache",)
