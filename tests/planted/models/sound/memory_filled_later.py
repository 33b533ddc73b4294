"""A parameter in memory that is filled when all other weights are drawn."""

BASE = "nanogpt"
REPLACE = {
    "        self.apply(self._init_weights)\n": """\
        self.gain = nn.Parameter(torch.empty(config.n_embd))
        self.apply(self._init_weights)
        nn.init.ones_(self.gain)
""",
    "self.lm_head(self.transformer.ln_f(x))": "self.lm_head(self.transformer.ln_f(x) * self.gain)",
}
