"""A nanoGPT with one learned gate for each token on the output of attention.

Re-enacts squeeze() without an axis: with one token per call it removes the time axis as well,
and broadcasting turns a batch of B into B x B.
"""

BASE = "nanogpt"
REPLACE = {
    "        self.attn = CausalSelfAttention(config)\n": """\
        self.attn = CausalSelfAttention(config)
        self.gate = nn.Linear(config.n_embd, 1)
""",
    "        x = x + y\n": """\
        gate = torch.sigmoid(self.gate(x)).squeeze()
        x = x + y * gate[..., None]
""",
}
PLANTED = "squeeze() drops the time axis of a single token"
CAUGHT_BY = ("cached", "logits")
CAUSE = ("shape", "size", "token", "decode", "cache")
