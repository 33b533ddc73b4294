"""A splice that all latents pass through at each call: latents are cached, not codes."""

BASE = "mla_splice"
REPLACE = {
    """\
        code = self.kvsplice.compress(self.to_kv_latent(x))
        if past is not None:
            code = torch.cat([past, code], dim=1)
        S = code.size(1)
        kv = self.from_kv_latent(self.kvsplice.expand(code))
""": """\
        z = self.to_kv_latent(x)
        if past is not None:
            z = torch.cat([past, z], dim=1)
        S = z.size(1)
        kv = self.from_kv_latent(self.kvsplice.expand(self.kvsplice.compress(z)))
""",
    "return self.out_proj(y.transpose(1, 2).reshape(B, T, -1)), code": (
        "return self.out_proj(y.transpose(1, 2).reshape(B, T, -1)), z"
    ),
    """\
        kept = sum(block.attn.kvsplice.compress.out_features for block in self.blocks)
        return batch * tokens * kept * self.wte.weight.element_size()
""": """\
        numbers = self.cfg.n_layers * self.cfg.d_latent
        return batch * tokens * numbers * self.wte.weight.element_size()
""",
}
