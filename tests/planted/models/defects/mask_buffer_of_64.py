"""A nanoGPT with a mask in a buffer whose size is not that of the configuration."""

BASE = "attention_written_out"
REPLACE = {
    "        self.resid = nn.Dropout(config.dropout)\n": """\
        self.resid = nn.Dropout(config.dropout)
        self.register_buffer("tri", torch.ones(64, 64, dtype=torch.bool).tril(), persistent=False)
""",
    "torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)": "self.tri[S - T : S, :S]",
}
PLANTED = "a mask for 64 tokens"
CAUGHT_BY = ("causality", "cached")
CAUSE = ("block of 272",)
