"""A GPT-2 with multi-head latent attention, a splice and a choice of MLP for each layer.

Re-enacts a variant that nobody ever built: its block is given one argument more than it takes.
"""

BASE = "mla_splice"
REPLACE = {
    "self.blocks = nn.ModuleList([MLABlock(cfg) for _ in range(cfg.n_layers)])": (
        "self.blocks = nn.ModuleList([MLABlock(cfg, n >= 2) for n in range(cfg.n_layers)])"
    ),
}
PLANTED = "the model cannot be constructed"
CAUGHT_BY = ("logits", "step")
CAUSE = ("TypeError", "argument", "MLABlock")
