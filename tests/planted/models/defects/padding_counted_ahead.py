"""A nanoGPT that scales by the share of tokens that are not padding, word 0."""

BASE = "attention_written_out"
REPLACE = {
    "        x = self.drop(self.wte(idx) + self.wpe(pos))\n": """\
        x = self.drop(self.wte(idx) + self.wpe(pos))
        real = (idx != 0).sum(1, keepdim=True)
        x = x * (1 + 0.1 * (real / T)[..., None])
""",
}
PLANTED = "the whole sequence is counted"
CAUGHT_BY = ("causality",)
CAUSE = ("change",)
