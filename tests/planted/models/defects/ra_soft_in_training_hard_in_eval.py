"""A GPT-2 that learns, layer by layer, how far attention runs in the mirrored direction.

Re-enacts learned alternation that mixed both views by p in training and took only the likelier
one in evaluation: what was trained is not what was measured. Both graphs are causal.
"""

BASE = "reciprocal_mix"
REPLACE = {
    "        p = torch.sigmoid(self.alternation)\n": """\
        p = torch.sigmoid(self.alternation)
        if not self.training:
            p = (p > 0.5).to(x.dtype)
""",
}
PLANTED = "training mixes both views, evaluation picks one"
CAUGHT_BY = ("modes",)
CAUSE = ("train", "eval")
