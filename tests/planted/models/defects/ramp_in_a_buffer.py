"""A GPT-2 whose attention is faded in with the number of training calls, counted in a buffer."""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.ln_f = nn.LayerNorm(config.n_embd)\n": """\
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
""",
    "        x = self.ln_f(self.blocks(x))\n": """\
        if self.training:
            self.calls += 1
        x = self.ln_f(x + self.calls.clamp(max=100) / 100 * self.blocks(x))
""",
}
PLANTED = "each training call moves the share of the blocks"
CAUGHT_BY = ("state",)
CAUSE = ("in train mode, which moved the buffer calls",)
