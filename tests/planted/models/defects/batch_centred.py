"""A nanoGPT that removes the mean of the last hidden states.

Re-enacts mean(0) written for mean(-1): each position is causal in time, but a sequence's
logits depend on which others share its batch.
"""

BASE = "nanogpt"
REPLACE = {
    "        logits = self.lm_head(self.transformer.ln_f(x))\n": """\
        x = self.transformer.ln_f(x)
        logits = self.lm_head(x - 0.5 * x.mean(0, keepdim=True))
""",
}
PLANTED = "the mean over the batch is subtracted"
CAUGHT_BY = ("causality",)
CAUSE = ("batch", "sequence", "other")
