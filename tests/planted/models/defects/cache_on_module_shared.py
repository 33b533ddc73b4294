"""A nanoGPT whose attention layers keep their keys and values themselves.

Re-enacts a cache that lives on the modules and is emptied when a text begins: one text at a time
is right, two in turn overwrite each other, and the cache handed out holds nothing.
"""

BASE = "cache_counted"
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
        if cache is not None and start == 0:
            for block in self.transformer.h:
                block.attn.past = None
        for block in self.transformer.h:
            x = block(x, cache is not None)
""",
    "return (logits, loss) if cache is None else (logits, loss, presents)": (
        'return (logits, loss) if cache is None else (logits, loss, {"length": start + T})'
    ),
}
PLANTED = "all decodes share the keys and values on the modules"
CAUGHT_BY = ("bytes", "state")
CAUSE = ("bytes", "byte", "state", "call", "hold", "two")
