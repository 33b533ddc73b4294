"""A nanoGPT that scales keys by a table, made in the first call."""

BASE = "attention_written_out"
REPLACE = {
    "        self.resid = nn.Dropout(config.dropout)\n": """\
        self.resid = nn.Dropout(config.dropout)
        self.table = None
""",
    "        if past is not None:\n": """\
        if self.table is None:
            self.table = torch.cos(torch.arange(T, device=x.device, dtype=x.dtype) * 0.3)[:, None]
        n = past[0].size(2) if past is not None else 0
        if self.table.size(0) >= n + T:
            k = k * self.table[n : n + T]
        if past is not None:
""",
}
PLANTED = "the table is as long as the first sequence"
CAUGHT_BY = ("checkpoint", "state")
CAUSE = ("first call",)
