"""A GPT-2 with multi-head latent attention and a spliced, so smaller, latent cache.

Re-enacts a cache that is expanded, joined by the new token and compressed again in each step:
the history is encoded over and over, and its entries drift.
"""

BASE = "mla_splice"
REPLACE = {
    """\
        nn.init.orthogonal_(self.compress.weight)
        self.expand.weight.data.copy_(self.compress.weight.data.T)
""": "",
    """\
        code = self.kvsplice.compress(self.to_kv_latent(x))
        if past is not None:
            code = torch.cat([past, code], dim=1)
        S = code.size(1)
""": """\
        z = self.to_kv_latent(x)
        if past is not None:
            z = torch.cat([self.kvsplice.expand(past), z], dim=1)
        S = z.size(1)
        code = self.kvsplice.compress(z)
""",
    """\
            if p.dim() == 2 and "kvsplice" not in name:
                nn.init.normal_(p, std=0.02)
""": """\
            if p.dim() == 2:
                nn.init.normal_(p, std=0.1)
""",
}
PLANTED = "old entries are expanded and compressed again in each step"
CAUGHT_BY = ("cached",)
CAUSE = ("cache", "decode", "token", "append", "stored", "entries", "drift")
