"""A GPT-2 with multi-head latent attention and a splice that starts orthogonal.

Re-enacts model.apply(init) over all linear layers, the codec's too: the bottleneck starts with
a gain of 0.07 where 0.7 was meant.
"""

BASE = "mla_splice"
REPLACE = {
    """\
        for name, p in self.named_parameters():
            if p.dim() == 2 and "kvsplice" not in name:
                nn.init.normal_(p, std=0.02)
""": """\
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)
""",
}
PLANTED = "the orthogonal start of the splice is overwritten by apply"
CAUGHT_BY = ("init",)
CAUSE = ("splice", "compress", "expand", "init", "overwrit")
