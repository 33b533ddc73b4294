"""A GPT-2 with experts that choose their tokens, for a perfectly even load.

Re-enacts expert choice in a causal model: whether a token is served depends on how later
tokens of its sequence score.
"""

BASE = "tokens_choose_experts"
REPLACE = {
    '        self.register_buffer("chosen", torch.zeros(2, dtype=torch.int64))\n': "",
    """\
        share = self.router(x).softmax(dim=-1)
        best = share.argmax(dim=-1)
        if self.training:
            self.chosen += torch.bincount(best.flatten(), minlength=2)
""": """\
        score = self.router(x).softmax(dim=-1)
""",
    "            y = y + ((best == n) * share[..., n])[..., None] * expert(x)\n": """\
            chosen = score[..., n].topk(max(1, x.size(1) // 2), dim=1).indices
            served = torch.zeros_like(score[..., n]).scatter(1, chosen, 1.0)
            y = y + (served * score[..., n])[..., None] * expert(x)
""",
}
PLANTED = "an expert picks the best tokens of the whole sequence"
CAUGHT_BY = ("causality",)
CAUSE = ("position", "future", "later", "earlier", "before")
