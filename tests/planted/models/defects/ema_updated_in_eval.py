"""A GPT-2 that divides its last hidden states by a running scale.

Re-enacts running statistics that are updated in evaluation too, so that each batch that is scored
changes the score of the next.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.ln_f = nn.LayerNorm(config.n_embd)\n": """\
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.register_buffer("running", torch.ones(()))
""",
    "        x = self.ln_f(self.blocks(x))\n": """\
        x = self.blocks(x)
        scale = (1 + self.running).sqrt()
        self.running.mul_(0.9).add_(0.1 * x.detach().square().mean())
        x = self.ln_f(x) / scale
""",
}
PLANTED = "the running mean moves in eval mode"
CAUGHT_BY = ("state",)
CAUSE = ("state", "call", "running", "left", "again", "buffer")
