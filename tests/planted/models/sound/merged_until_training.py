"""A GPT-2 that merges two projections when it first decodes, and drops them when modes change."""

BASE = "mla_splice"
REPLACE = {
    "        self.out_proj = nn.Linear(self.H * self.d, cfg.d_model)\n": """\
        self.out_proj = nn.Linear(self.H * self.d, cfg.d_model)
        self.merged = None

    def train(self, mode=True):
        self.merged = None
        return super().train(mode)
""",
    "        if past is not None:\n": """\
        decoding = past is not None and not self.training
        if decoding and self.merged is None:
            self.merged = (self.from_kv_latent.weight @ self.kvsplice.expand.weight).detach()
        if past is not None:
""",
    "        kv = self.from_kv_latent(self.kvsplice.expand(code))\n": """\
        if decoding:
            kv = F.linear(code, self.merged, self.from_kv_latent.bias)
        else:
            kv = self.from_kv_latent(self.kvsplice.expand(code))
""",
}
