"""A bias of keys, which cancels in the softmax: a parameter of its own that has no effect."""

BASE = "attention_written_out"
REPLACE = {
    "        self.resid = nn.Dropout(config.dropout)\n": """\
        self.resid = nn.Dropout(config.dropout)
        self.shift = nn.Parameter(torch.zeros(config.n_embd))
""",
    "        q, k, v = self.c_attn(x).split(C, dim=2)\n": """\
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k + self.shift
""",
}
