"""A GPT-2 whose MLP tells the next block how much to trust each attention head.

Re-enacts mlp_attn_gate: the hidden units were averaged over all T tokens before they gated the
attention of each of them. At the usual initial scale the leak is of the order of 1e-6.
"""

BASE = "context_between_blocks"
REPLACE = {
    "            self.gate_up = nn.Linear(4, config.n_head)\n": """\
            self.gate_up = nn.Linear(4, config.n_head)
            nn.init.normal_(self.gate_down.weight, std=0.02)
""",
    """\
        count = torch.arange(1, x.size(1) + 1, device=x.device)[:, None]
        summary = self.gate_down(hidden).cumsum(1) / count
""": """\
        summary = self.gate_down(hidden).mean(dim=1, keepdim=True)
""",
}
PLANTED = "the gate averages over all tokens, the later ones too"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
