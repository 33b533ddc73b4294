"""A GPT-2 with batch norm before each MLP.

Re-enacts normalisation by statistics of all tokens of all sequences: in training each token
sees the later ones and its neighbours in the batch, in evaluation it sees running means.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "self.ln2 = nn.LayerNorm(config.n_embd)": "self.bn = nn.BatchNorm1d(config.n_embd)",
    "x = x + self.mlp(self.ln2(x))": (
        "x = x + self.mlp(self.bn(x.transpose(1, 2)).transpose(1, 2))"
    ),
}
PLANTED = "batch norm mixes all positions and sequences in training"
CAUGHT_BY = ("causality", "modes")
CAUSE = ("position", "future", "later", "earlier", "before", "batch", "sequence", "train")
