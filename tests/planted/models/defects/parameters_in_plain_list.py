"""A GPT-2 with one learned gain for each block.

Re-enacts parameters in a Python list, which no module registers: they are not moved, not trained
and not saved.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.n_layer)])\n": """\
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.n_layer)])
        self.gains = [
            nn.Parameter(1 + 0.1 * torch.randn(config.n_embd)) for _ in range(config.n_layer)
        ]
""",
    "        x = self.ln_f(self.blocks(x))\n": """\
        for gain, block in zip(self.gains, self.blocks, strict=True):
            x = block(x * gain.to(x))
        x = self.ln_f(x)
""",
}
PLANTED = "the gains are in a plain list: no optimizer and no checkpoint sees them"
CAUGHT_BY = ("checkpoint",)
CAUSE = ("checkpoint", "restored", "saved", "logits", "load")
