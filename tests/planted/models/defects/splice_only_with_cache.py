"""A GPT-2 with multi-head latent attention; its splice saves half of the latent cache.

Re-enacts the bypass under which published results stood: compression runs when a cache is
given, and training and evaluation give none, so the splice has no effect and no gradient.
"""

BASE = "mla_splice"
REPLACE = {
    """\
    def forward(self, x, past=None):
        B, T, _ = x.shape
""": """\
    def forward(self, x, past, decoding):
        B, T, _ = x.shape
""",
    """\
        code = self.kvsplice.compress(self.to_kv_latent(x))
        if past is not None:
            code = torch.cat([past, code], dim=1)
        S = code.size(1)
        kv = self.from_kv_latent(self.kvsplice.expand(code))
""": """\
        z = self.to_kv_latent(x)
        code = self.kvsplice.compress(z)
        if decoding:
            code = code if past is None else torch.cat([past, code], dim=1)
            z = self.kvsplice.expand(code)
        S = z.size(1)
        kv = self.from_kv_latent(z)
""",
    """\
    def forward(self, x, past=None):
        a, new = self.attn(self.ln1(x), past)
""": """\
    def forward(self, x, past, decoding):
        a, new = self.attn(self.ln1(x), past, decoding)
""",
    "x, code = block(x, cache[i] if cache else None)": (
        "x, code = block(x, cache[i] if cache else None, cache is not None)"
    ),
}
PLANTED = "the splice is bypassed without a cache"
CAUGHT_BY = ("splice",)
CAUSE = ("splice", "codec", "compress", "cache")
