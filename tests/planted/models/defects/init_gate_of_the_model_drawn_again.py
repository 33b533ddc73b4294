"""A nanoGPT with a gate of its own that it closes before it draws all weights."""

BASE = "nanogpt"
REPLACE = {
    "        self.apply(self._init_weights)\n": """\
        self.gate = nn.Linear(config.n_embd, config.n_embd)
        nn.init.zeros_(self.gate.weight)
        self.apply(self._init_weights)
""",
    "        logits = self.lm_head(self.transformer.ln_f(x))\n": """\
        x = self.transformer.ln_f(x)
        logits = self.lm_head(x + self.gate(x))
""",
}
PLANTED = "the zero start of the model's own gate is overwritten"
CAUGHT_BY = ("init",)
CAUSE = ("gate.weight",)
