"""A GPT-2 that attends in the compressed latent itself, with the older path kept as a fallback.

Re-enacts a switch that is always on: W_q, from_kv_latent, out_proj and the expansion are
counted, saved and given to the optimizer, and no gradient ever reaches them.
"""

BASE = "mla_splice"
REPLACE = {
    "        self.out_proj = nn.Linear(self.H * self.d, cfg.d_model)\n": """\
        self.out_proj = nn.Linear(self.H * self.d, cfg.d_model)
        kept = self.kvsplice.compress.out_features
        self.in_code = nn.Linear(kept, 3 * kept)
        self.from_code = nn.Linear(kept, cfg.d_model)
        self.use_compressed = True
""",
    "        q = self.W_q(x).view(B, T, self.H, self.d).transpose(1, 2)\n": "",
    """\
        kv = self.from_kv_latent(self.kvsplice.expand(code))
        k, v = kv.view(B, S, 2, self.H, self.d).permute(2, 0, 3, 1, 4)
""": """\
        if self.use_compressed:
            q, k, v = self.in_code(code).chunk(3, dim=-1)
            q, out = q[:, S - T :], self.from_code
        else:
            q = self.W_q(x).view(B, T, self.H, self.d).transpose(1, 2)
            kv = self.from_kv_latent(self.kvsplice.expand(code))
            k, v = kv.view(B, S, 2, self.H, self.d).permute(2, 0, 3, 1, 4)
            out = self.out_proj
""",
    "        return self.out_proj(y.transpose(1, 2).reshape(B, T, -1)), code\n": """\
        if not self.use_compressed:
            y = y.transpose(1, 2)
        return out(y.reshape(B, T, -1)), code
""",
}
PLANTED = "the weights of the path that is never taken are dead"
CAUGHT_BY = ("gradients",)
CAUSE = ("W_q", "from_kv_latent", "out_proj", "expand")
