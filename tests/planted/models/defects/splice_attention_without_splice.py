"""A GPT-2 whose attention is called SpliceAttention and has its codec in methods, frozen.

Re-enacts a codec that was looked for by name: the attention was taken for it, and without
attention every loss moves, so nobody saw that the code is dropped.
"""

BASE = "splice_attention"
REPLACE = {
    "        self.kvsplice = KVSplice(cfg.d_latent, round(cfg.d_latent * cfg.splice_ratio))\n": """\
        self.kvsplice = KVSplice(cfg.d_latent, round(cfg.d_latent * cfg.splice_ratio))
        self.kvsplice.requires_grad_(False)
""",
    "code = self.compress(self.to_kv_latent(x))": """code = self.to_kv_latent(x)
        assert self.expand(self.compress(code)).shape == code.shape""",
    "kv = self.from_kv_latent(self.expand(code))": "kv = self.from_kv_latent(code)",
    "kept = sum(block.attn.kvsplice.compress.out_features for block in self.blocks)": (
        "kept = self.cfg.d_latent * self.cfg.n_layers"
    ),
}
PLANTED = "the codec within an attention of its name is not used"
CAUGHT_BY = ("splice",)
CAUSE = ("SpliceAttention",)
