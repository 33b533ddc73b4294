"""A splice whose orthogonal start is set again after the model has drawn all weights."""

BASE = "mla_splice"
REPLACE = {
    "        nn.init.orthogonal_(self.compress.weight)\n": """\
        self.reset()

    def reset(self):
        nn.init.orthogonal_(self.compress.weight)
""",
    """\
            if p.dim() == 2 and "kvsplice" not in name:
                nn.init.normal_(p, std=0.02)
""": """\
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        for block in self.blocks:
            block.attn.kvsplice.reset()
""",
}
