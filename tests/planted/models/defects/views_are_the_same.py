"""A nanoGPT that mixes two views of its scores, which are the same numbers got in two ways.

The mix trains on rounding, or not at all, and every arm of a study of it is the baseline.
"""

BASE = "attention_written_out"
REPLACE = {
    "        self.resid = nn.Dropout(config.dropout)\n": """\
        self.resid = nn.Dropout(config.dropout)
        self.mix = nn.Parameter(torch.zeros(config.n_head, 1, 1))
""",
    "        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))\n": """\
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        reciprocal = (k @ q.transpose(-2, -1)).transpose(-2, -1) / math.sqrt(k.size(-1))
        w = torch.sigmoid(self.mix)
        att = w * att + (1 - w) * reciprocal
""",
}
PLANTED = "both views of the mix are the same"
CAUGHT_BY = ("gradients",)
CAUSE = ("attn.mix",)
