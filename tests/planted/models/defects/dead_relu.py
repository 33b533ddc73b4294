"""A GPT-2 with ReLU and a bias meant to make the hidden units sparse.

Re-enacts a start so far below zero that no unit fires: no gradient, so they never will.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    "        self.down = nn.Linear(4 * config.n_embd, config.n_embd)\n": """\
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)
        nn.init.constant_(self.up.bias, -10.0)
""",
    "return self.drop(self.down(F.gelu(self.up(x))))": (
        "return self.drop(self.down(F.relu(self.up(x))))"
    ),
}
PLANTED = "no hidden unit of the MLP ever fires"
CAUGHT_BY = ("gradients",)
CAUSE = ("up.", "down.", "mlp", "ln2")
