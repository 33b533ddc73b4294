"""Two experts of which the router starts far on the side of the first: the second waits long.

It gets no token in the first steps; once the router has learned something else it will.
"""

BASE = "twelve_experts"
REPLACE = {
    """\
        self.router = nn.Linear(config.n_embd, 12)
        self.experts = nn.ModuleList(nn.Linear(config.n_embd, 4 * config.n_embd) for _ in range(12))
""": """\
        self.router = nn.Linear(config.n_embd, 2, bias=False)
        self.lean = nn.Parameter(torch.tensor([0.4, -0.4]))
        self.experts = nn.ModuleList(nn.Linear(config.n_embd, 4 * config.n_embd) for _ in range(2))
""",
    "p = self.router(x).softmax(-1)": "p = (self.router(x) + self.lean).softmax(-1)",
}
