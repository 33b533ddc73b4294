"""A nanoGPT that centres a batch where it is large enough for a mean."""

BASE = "attention_written_out"
REPLACE = {
    "T = idx.size(1)": "B, T = idx.shape",
    "        x = self.drop(self.wte(idx) + self.wpe(pos))\n": """\
        x = self.drop(self.wte(idx) + self.wpe(pos))
        if B > 2:
            x = x + 0.01 * x.mean(0, keepdim=True)
""",
}
PLANTED = "in batches of three and more sequences see each other"
CAUGHT_BY = ("causality",)
CAUSE = ("batch",)
