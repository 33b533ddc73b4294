"""Rotary positions as a table of complex numbers, a buffer that is not saved."""

BASE = "attention_written_out"
REPLACE = {
    "        self.resid = nn.Dropout(config.dropout)\n": """\
        self.resid = nn.Dropout(config.dropout)
        d = config.n_embd // config.n_head
        f = 1.0 / 10000 ** (torch.arange(0, d, 2)[: d // 2].float() / d)
        t = torch.outer(torch.arange(config.block_size).float(), f)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(t), t), persistent=False)
""",
    "        if past is not None:\n": """\
        n = past[0].size(2) if past is not None else 0
        fc = self.freqs_cis[n : n + T]

        def rot(z):
            c = torch.view_as_complex(z.float().reshape(*z.shape[:-1], -1, 2))
            return torch.view_as_real(c * fc).flatten(3).type_as(z)

        q, k = rot(q), rot(k)
        if past is not None:
""",
    "        self.wpe = nn.Embedding(config.block_size, config.n_embd)\n": "",
    """\
        T = idx.size(1)
        start = cache[0][0].size(2) if cache else 0
        pos = torch.arange(start, start + T, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
""": """\
        x = self.drop(self.wte(idx))
""",
}
