"""A nanoGPT with a splice for its values, applied where a prompt is read."""

BASE = "attention_written_out"
REPLACE = {
    "        self.resid = nn.Dropout(config.dropout)\n": """\
        self.resid = nn.Dropout(config.dropout)
        self.kvsplice = nn.Sequential(nn.Linear(config.n_embd, 8), nn.Linear(8, config.n_embd))
""",
    "        if past is not None:\n": """\
        flat = v.transpose(1, 2).reshape(B, T, C)
        v = (
            (self.kvsplice(flat) if past is None else flat)
            .view(B, T, self.n_head, -1)
            .transpose(1, 2)
        )
        if past is not None:
""",
}
PLANTED = "tokens behind others are stored without the splice"
CAUGHT_BY = ("cached",)
CAUSE = ("full pass",)
