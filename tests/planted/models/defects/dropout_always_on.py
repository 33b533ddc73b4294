"""A GPT-2 that calls dropout as a function.

Re-enacts F.dropout with its default training=True and a rate of its own: evaluation is noise, and
dropout=0 in the configuration changes nothing.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    """\
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
""": """\
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)
""",
    "return self.drop(self.down(F.gelu(self.up(x))))": (
        "return F.dropout(self.down(F.gelu(self.up(x))), 0.1)"
    ),
}
PLANTED = "dropout runs in eval mode, at a rate that the configuration does not set"
CAUGHT_BY = ("modes", "state")
CAUSE = ("dropout", "random", "eval", "twice", "call", "same")
