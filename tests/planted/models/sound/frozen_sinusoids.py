"""Sinusoids in an embedding that is frozen: a parameter with requires_grad=False."""

BASE = "nanogpt"
REPLACE = {
    "        self.apply(self._init_weights)\n": """\
        self.apply(self._init_weights)
        rate = 10000.0 ** (-torch.arange(0, config.n_embd, 2) / config.n_embd)
        angle = torch.arange(config.block_size)[:, None] * rate
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        self.transformer.wpe.weight = nn.Parameter(table, requires_grad=False)
""",
}
