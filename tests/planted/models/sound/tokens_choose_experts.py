"""Two experts, of which each token chooses one; a training counter tells how often, in a buffer.

Routing depends on the token alone. The counter moves with each training call and has no part
in the result.
"""

BASE = "untied_head_no_cache"
REPLACE = {
    """\
        self.up = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.down = nn.Linear(4 * config.n_embd, config.n_embd)
""": """\
        E = config.n_embd
        self.router = nn.Linear(E, 2, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(E, 2 * E), nn.GELU(), nn.Linear(2 * E, E)) for _ in range(2)
        )
        self.register_buffer("chosen", torch.zeros(2, dtype=torch.int64))
""",
    "        return self.drop(self.down(F.gelu(self.up(x))))\n": """\
        share = self.router(x).softmax(dim=-1)
        best = share.argmax(dim=-1)
        if self.training:
            self.chosen += torch.bincount(best.flatten(), minlength=2)
        y = torch.zeros_like(x)
        for n, expert in enumerate(self.experts):
            y = y + ((best == n) * share[..., n])[..., None] * expert(x)
        return self.drop(y)
""",
}
