"""A GPT-2 with group norm, on the layout that convolutions use.

Re-enacts GroupNorm on [B, C, T], whose statistics run over time as well as over channels.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "self.ln2 = nn.LayerNorm(config.n_embd)": "self.norm = nn.GroupNorm(1, config.n_embd)",
    "x = x + self.mlp(self.ln2(x))": (
        "x = x + self.mlp(self.norm(x.transpose(1, 2)).transpose(1, 2))"
    ),
}
PLANTED = "the norm takes its statistics over all tokens"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
