"""A GPT-2 with multi-head latent attention and a frozen codec for its latents."""

BASE = "mla_splice"
REPLACE = {
    "        self.kvsplice = KVSplice(cfg.d_latent, round(cfg.d_latent * cfg.splice_ratio))\n": """\
        n = round(cfg.d_latent * cfg.splice_ratio)
        self.compress, self.expand = nn.Linear(cfg.d_latent, n), nn.Linear(n, cfg.d_latent)
        self.compress.requires_grad_(False), self.expand.requires_grad_(False)
""",
    """\
        code = self.kvsplice.compress(self.to_kv_latent(x))
        if past is not None:
            code = torch.cat([past, code], dim=1)
        S = code.size(1)
        kv = self.from_kv_latent(self.kvsplice.expand(code))
""": """\
        z = self.to_kv_latent(x)
        assert self.expand(self.compress(z)).shape == z.shape
        code = z if past is None else torch.cat([past, z], dim=1)
        S = code.size(1)
        kv = self.from_kv_latent(code)
""",
    "kept = sum(block.attn.kvsplice.compress.out_features for block in self.blocks)": (
        "kept = self.cfg.d_latent * self.cfg.n_layers"
    ),
}
PLANTED = "what the codec gives is not used"
CAUGHT_BY = ("splice",)
CAUSE = ("compress", "codec")
