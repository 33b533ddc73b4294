"""An attention that is called for its splice, with the codec in methods of its own."""

BASE = "mla_splice"
REPLACE = {
    "class MLA(nn.Module):": "class SpliceAttention(nn.Module):",
    "self.attn = MLA(cfg)": "self.attn = SpliceAttention(cfg)",
    "    def forward(self, x, past=None):\n        B, T, _ = x.shape\n": """\
    def compress(self, latent):
        return self.kvsplice.compress(latent)

    def expand(self, code):
        return self.kvsplice.expand(code)

    def forward(self, x, past=None):
        B, T, _ = x.shape
""",
    "code = self.kvsplice.compress(self.to_kv_latent(x))": (
        "code = self.compress(self.to_kv_latent(x))"
    ),
    "kv = self.from_kv_latent(self.kvsplice.expand(code))": (
        "kv = self.from_kv_latent(self.expand(code))"
    ),
}
