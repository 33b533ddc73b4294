"""A nanoGPT whose attention layers keep their keys and values themselves.

Re-enacts a cache that lives on the modules and is never emptied: the second text that is decoded
still sees the first.
"""

BASE = "nanogpt"
REPLACE = {
    """\
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x, past=None):
""": """\
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.past = None

    def forward(self, x, decoding):
""",
    """\
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
""": """\
        if decoding:
            if self.past is not None:
                k = torch.cat([self.past[0], k], dim=2)
                v = torch.cat([self.past[1], v], dim=2)
            self.past = (k, v)
""",
    "return self.c_proj(y), (k, v)": "return self.c_proj(y)",
    """\
    def forward(self, x, past=None):
        y, present = self.attn(self.ln_1(x), past)
        x = x + y
        x = x + self.mlp(self.ln_2(x))
        return x, present
""": """\
    def forward(self, x, decoding):
        x = x + self.attn(self.ln_1(x), decoding)
        return x + self.mlp(self.ln_2(x))
""",
    "cache[0][0].size(2) if cache else 0": '0 if cache is None else cache.get("length", 0)',
    """\
        presents = []
        for i, block in enumerate(self.transformer.h):
            x, present = block(x, cache[i] if cache else None)
            presents.append(present)
""": """\
        for block in self.transformer.h:
            x = block(x, cache is not None)
""",
    "return (logits, loss) if cache is None else (logits, loss, presents)": (
        'return (logits, loss) if cache is None else (logits, loss, {"length": start + T})'
    ),
}
PLANTED = "keys and values of an earlier decode stay on the modules"
CAUGHT_BY = ("cached", "state")
CAUSE = ("cache", "decode", "token", "state", "call", "left")
