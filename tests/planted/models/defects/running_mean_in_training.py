"""A GPT-2 that takes a running mean from its last hidden states, and moves it in training.

Re-enacts statistics of all batches so far: each token sees earlier tokens only, and those of
batches before. It is state, and no leak.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.ln_f = nn.LayerNorm(config.n_embd)\n": """\
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.register_buffer("running", torch.zeros(config.n_embd))
""",
    "        x = self.ln_f(self.blocks(x))\n": """\
        x = self.blocks(x)
        mean = self.running.clone()
        if self.training:
            with torch.no_grad():
                self.running.lerp_(x.mean(dim=(0, 1)), 0.1)
        x = self.ln_f(x - mean)
""",
}
PLANTED = "the running mean of earlier batches moves in training"
CAUGHT_BY = ("state",)
CAUSE = ("in train mode, which moved the buffer running",)
