"""A nanoGPT that numbers documents by the end words still to come."""

BASE = "attention_written_out"
REPLACE = {
    "        x = self.drop(self.wte(idx) + self.wpe(pos))\n": """\
        x = self.drop(self.wte(idx) + self.wpe(pos))
        eos = self.config.vocab_size - 1
        if cache is None:
            left = (idx == eos).flip(1).cumsum(1).flip(1)
            x = x + 0.1 * left[..., None].to(x) * x.flip(-1)
""",
}
PLANTED = "end words are counted from the back"
CAUGHT_BY = ("causality",)
CAUSE = ("change",)
