"""A GPT-2 whose blocks are called SpliceBlock and have a frozen codec beside the path.

Re-enacts the outermost module of the name taken for the codec: a block without which all moves.
"""

BASE = "mla_splice"
REPLACE = {
    "class MLABlock(nn.Module):": "class SpliceBlock(nn.Module):",
    "[MLABlock(cfg) for": "[SpliceBlock(cfg) for",
    "        self.kvsplice = KVSplice(cfg.d_latent, round(cfg.d_latent * cfg.splice_ratio))\n": """\
        self.kvsplice = KVSplice(cfg.d_latent, round(cfg.d_latent * cfg.splice_ratio))
        self.kvsplice.requires_grad_(False)
""",
    "code = self.kvsplice.compress(self.to_kv_latent(x))": "code = self.to_kv_latent(x)",
    "kv = self.from_kv_latent(self.kvsplice.expand(code))": "kv = self.from_kv_latent(code)",
    "kept = sum(block.attn.kvsplice.compress.out_features for block in self.blocks)": (
        "kept = self.cfg.d_latent * self.cfg.n_layers"
    ),
}
PLANTED = "the codec within a block of its name is not used"
CAUGHT_BY = ("splice",)
CAUSE = ("kvsplice",)
