"""A causal mask for the longest sequence, kept as a parameter that asks for no gradient."""

BASE = "attention_written_out"
REPLACE = {
    "        self.resid = nn.Dropout(config.dropout)\n": """\
        self.resid = nn.Dropout(config.dropout)
        triangle = torch.ones(config.block_size, config.block_size).tril()
        self.mask = nn.Parameter(triangle, requires_grad=False)
""",
    "mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)": (
        "mask = self.mask[S - T : S, :S] != 0"
    ),
}
