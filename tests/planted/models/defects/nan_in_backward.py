"""A GPT-2 with cross-token gating by the entropy of each row of attention.

Re-enacts x log x guarded by where(): the forward is finite, the backward multiplies zero by
infinity for each masked key.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.proj = nn.Linear(config.n_embd, config.n_embd)\n": """\
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        self.scale = nn.Parameter(torch.ones(config.n_head, 1, 1))
        self.shift = nn.Parameter(torch.full((config.n_head, 1, 1), 2.0))
""",
    "        y = self.drop(att) @ v\n": """\
        entropy = -torch.where(att > 0, att * att.log(), 0.0).sum(-1, keepdim=True)
        y = self.drop(att) @ v * torch.sigmoid(self.scale * entropy + self.shift)
""",
}
PLANTED = "the gradient of the entropy is NaN at masked keys"
CAUGHT_BY = ("step", "gradients")
CAUSE = ("nan", "finite")
