"""A nanoGPT with its shortcut for sampling.

Re-enacts logits for the last position only when there are no targets, under which an evaluation
that scores continuations read an empty slice and gave zero to every choice.
"""

BASE = "nanogpt"
REPLACE = {
    "        logits = self.lm_head(self.transformer.ln_f(x))\n": """\
        x = self.transformer.ln_f(x)
        logits = self.lm_head(x if targets is not None else x[:, -1:])
""",
}
PLANTED = "without targets there are logits for one position only"
CAUGHT_BY = ("logits",)
CAUSE = ("position", "shape", "last")
