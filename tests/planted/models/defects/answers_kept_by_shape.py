"""A nanoGPT that remembers its last answer in evaluation."""

BASE = "attention_written_out"
REPLACE = {
    "        logits = self.lm_head(x)\n": """\
        logits = self.lm_head(x)
        if not self.training and targets is None and cache is None:
            if getattr(self, "_seen", None) is not None and self._seen[0] == idx.shape:
                logits = self._seen[1]
            else:
                self._seen = (idx.shape, logits)
""",
}
PLANTED = "the answer is found by the shape of the tokens"
CAUGHT_BY = ("state",)
CAUSE = ("call before",)
