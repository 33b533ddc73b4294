"""The embedding is also registered as the head: one parameter under two names.

A checkpoint that saves both names must not store, or count, it twice, nor lose the tie.
"""

BASE = "reciprocal_mix"
REPLACE = {
    "        self.ln_f = nn.LayerNorm(config.n_embd)\n": """\
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.register_parameter("head", self.wte.weight)
""",
    "logits = F.linear(self.ln_f(x), self.wte.weight)": (
        "logits = F.linear(self.ln_f(x), self.head)"
    ),
}
