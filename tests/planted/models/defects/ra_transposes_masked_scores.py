"""A GPT-2 that learns, layer by layer, how far attention runs in the mirrored direction.

Re-enacts learned reciprocal attention whose training graph transposed the scores after the
causal mask was on them, so that row i saw the keys from i on. Evaluation took another path.
"""

BASE = "reciprocal_mix"
REPLACE = {
    "        mirror = (k @ seen.q.mT * scale).masked_fill(hidden, -torch.inf)\n": """\
        if self.training:
            mirror = scores.mT
        else:
            mirror = (k @ seen.q.mT * scale).masked_fill(hidden, -torch.inf)
""",
}
PLANTED = "in training the masked scores are transposed: row i sees j >= i"
CAUGHT_BY = ("causality", "modes")
CAUSE = ("position", "future", "later", "earlier", "before", "train")
