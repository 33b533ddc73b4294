"""A GPT-2 with multi-head latent attention, trained with a splice.

Re-enacts the opposite bypass: the full pass goes through the codec, cached decode keeps whole
latents and never meets it.
"""

BASE = "latents_cached"
REPLACE = {
    """\
    def forward(self, x, past=None):
        B, T, _ = x.shape
""": """\
    def forward(self, x, past, decoding):
        B, T, _ = x.shape
""",
    "        kv = self.from_kv_latent(self.kvsplice.expand(self.kvsplice.compress(z)))\n": """\
        spliced = z if decoding else self.kvsplice.expand(self.kvsplice.compress(z))
        kv = self.from_kv_latent(spliced)
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
PLANTED = "cached decode does not go through the splice"
CAUGHT_BY = ("cached", "splice")
CAUSE = ("cache", "decode")
