"""A GPT-2 with two experts of limited capacity; a token that finds its expert full is skipped.

Re-enacts capacity counted over the flattened batch: a sequence loses tokens because of the
sequences before it. In time each of them is causal.
"""

BASE = "tokens_choose_experts"
REPLACE = {
    '        self.register_buffer("chosen", torch.zeros(2, dtype=torch.int64))\n': "",
    """\
        share = self.router(x).softmax(dim=-1)
        best = share.argmax(dim=-1)
        if self.training:
            self.chosen += torch.bincount(best.flatten(), minlength=2)
        y = torch.zeros_like(x)
        for n, expert in enumerate(self.experts):
            y = y + ((best == n) * share[..., n])[..., None] * expert(x)
        return self.drop(y)
""": """\
        tokens = x.flatten(0, 1)
        score, choice = self.router(tokens).softmax(dim=-1).max(dim=-1)
        room = max(1, int(0.375 * len(tokens)))
        y = torch.zeros_like(tokens)
        for n, expert in enumerate(self.experts):
            mine = (choice == n).nonzero().squeeze(1)[:room]
            y = y.index_add(0, mine, score[mine, None] * expert(tokens[mine]))
        return self.drop(y.view_as(x))
""",
}
PLANTED = "the room in an expert is used up by other sequences"
CAUGHT_BY = ("causality",)
CAUSE = ("batch", "sequence", "other")
