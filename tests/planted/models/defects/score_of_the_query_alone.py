"""A nanoGPT that adds to all scores of a query what it works out from the query: no key gains."""

BASE = "attention_written_out"
REPLACE = {
    "        self.resid = nn.Dropout(config.dropout)\n": """\
        self.resid = nn.Dropout(config.dropout)
        self.score = nn.Linear(config.n_embd, config.n_head, bias=False)
""",
    "        att = att.masked_fill(": """\
        att = att + self.score(x).transpose(1, 2).unsqueeze(-1)
        att = att.masked_fill(""",
}
PLANTED = "what is added to scores cancels in the softmax"
CAUGHT_BY = ("gradients",)
CAUSE = ("but for rounding",)
