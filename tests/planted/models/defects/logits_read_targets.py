"""A GPT-2 with an auxiliary path that sees the embedded labels in training.

Re-enacts labels that reach the stream from which they are predicted: the training loss falls to
nothing, and sampling, without labels, knows nothing.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        x = self.ln_f(self.blocks(x))\n": """\
        x = self.blocks(x)
        if targets is not None:
            x = x + 0.1 * self.tok_emb(targets.clamp(min=0))
        x = self.ln_f(x)
""",
}
PLANTED = "with targets the logits depend on them"
CAUGHT_BY = ("logits",)
CAUSE = ("target",)
